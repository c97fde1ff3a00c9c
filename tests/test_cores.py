"""While epochs are made, one core is left to the thread that runs graphs; then all is as before."""

import contextlib
import os
import subprocess
import sys
import threading

import pytest

from ms_biaten import cores
from parity_tests.trajectory import make_adapter, small_bank, trajectory_config

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="one core, or not Linux"
)


@contextlib.contextmanager
def thread(name):
    """A sleeping thread of this name, as the system knows it; its number."""
    ready, done, found = threading.Event(), threading.Event(), []

    def sleep():
        found.append(threading.get_native_id())
        (cores.THREADS / str(found[0]) / "comm").write_text(name)
        ready.set()
        done.wait()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    ready.wait()
    try:
        yield found[0]
    finally:
        done.set()
        sleeper.join()


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(cores, "alone", lambda: True)


def test_the_caller_and_waiting_threads_leave_a_core(quiet):
    every = os.sched_getaffinity(0)
    others = every - {min(every)}
    with thread("KernelThread_7") as waiting, thread("ActorThread_7") as running:
        with cores.undisturbed():
            assert cores.cores_of(0) == cores.cores_of(waiting) == others
            assert cores.cores_of(running) == every
            with thread("reader") as later:  # ended before all is given back
                assert cores.cores_of(later) == others
        assert {frozenset(cores.cores_of(t)) for t in (0, waiting, running)} == {frozenset(every)}


def test_all_is_given_back_after_an_error_and_to_threads_that_stay(quiet):
    every = os.sched_getaffinity(0)
    with thread("KernelThread_7") as waiting, contextlib.ExitStack() as stays:
        with pytest.raises(ValueError, match="by name"), cores.undisturbed():
            later = stays.enter_context(thread("queue"))
            raise ValueError("by name")
        assert cores.cores_of(waiting) == cores.cores_of(0) == cores.cores_of(later) == every


def test_what_its_owner_has_placed_stays_there(quiet):
    every = os.sched_getaffinity(0)
    with thread("KernelThread_7"), thread("own") as placed:
        os.sched_setaffinity(placed, every - {min(every)})
        with cores.undisturbed():
            pass
        assert cores.cores_of(placed) == every - {min(every)}


def test_nothing_is_held_without_waiting_threads_or_beside_others(monkeypatch):
    every = os.sched_getaffinity(0)
    monkeypatch.setattr(cores, "alone", lambda: False)
    with thread("KernelThread_7") as waiting, cores.undisturbed():
        assert cores.cores_of(0) == cores.cores_of(waiting) == every
    monkeypatch.setattr(cores, "alone", lambda: True)
    monkeypatch.setattr(cores, "WAITING", "no such thread")
    with cores.undisturbed():
        assert cores.cores_of(0) == every


def test_no_thread_is_held_that_the_first_graphs_start(quiet):
    """A resumed run begins with an epoch: its products would share one core ever after."""
    bank, config = small_bank(), trajectory_config("paper")
    adapter = make_adapter("mindspore", config, bank)
    every = os.sched_getaffinity(0)
    with thread("KernelThread_7") as waiting:
        with adapter.undisturbed():
            assert cores.cores_of(0) == cores.cores_of(waiting) == every
            adapter.predict(next(iter(bank.chunks(10))))
        with adapter.undisturbed():
            assert cores.cores_of(0) == cores.cores_of(waiting) == every - {min(every)}


def test_a_busy_process_is_seen():
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert not cores.alone()
    finally:
        busy.kill()
        busy.wait()


def test_what_cannot_be_read_is_taken_for_others(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "LOAD", tmp_path / "none")
    assert not cores.alone()
    (tmp_path / "none").write_text("?")
    assert not cores.alone()
