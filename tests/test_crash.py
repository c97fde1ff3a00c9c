"""Kills, signals and second processes: real ones. `python -m benchmarks.kills` is the long form."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from benchmarks import kills, reliability
from benchmarks.measuring import ROOT
from ms_biaten.spec import extracting
from ms_biaten.spec.checkpoints import Checkpoints
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.locks import Lock
from tests.conftest import results
from torch_ref.cli import main

SMALL = ["train", "--config", "debug", "--set", "attention.width=8", "--no-report"]


@pytest.fixture
def bench(request, tmp_path):
    made = kills.Bench(request.param, tmp_path)
    yield made
    made.starter.close()


@pytest.mark.parametrize(
    ("bench", "stride"),
    [("training, PyTorch", 40), ("extraction, PyTorch", 70)],
    indirect=["bench"],
)
def test_killed_runs_end_as_the_unbroken_one(bench, stride):
    kills.random_kills(bench, 2)
    kills.every_write(bench, stride)
    assert bench.faults == []
    assert bench.counts["clean_resumes"] == bench.counts["kills"] > 3
    check_that_faults_are_seen(bench)


def check_that_faults_are_seen(bench):
    """What is asserted above can fail: another end, less than before, half a file."""
    bench.expected["more"] = 1
    bench.chain(0)
    assert (bench.counts["corrupt"], bench.counts["lost"]) == (1, 0)
    whole = bench.folder / "whole"
    bench.look(whole, dict.fromkeys(bench.scenario.progress(whole), 10**7))
    assert (bench.counts["corrupt"], bench.counts["lost"]) == (1, 1)
    for path in (*whole.rglob("last.safetensors"), *whole.rglob("center.npy")):
        path.write_bytes(path.read_bytes()[:-1])
    bench.look(whole, {})
    assert (bench.counts["corrupt"], bench.counts["lost"]) == (2, 1)


def started(folder, *arguments):
    """A training in a process of its own, once two epochs are on record."""
    command = [sys.executable, "-m", "torch_ref", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=folder, env=environment, **pipes)
    deadline = time.monotonic() + 120
    while not (folder / "run/results.jsonl").exists() or len(results(folder / "run")) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_a_second_process_is_refused_and_sigterm_saves(folder, capsys):
    process = started(folder, *SMALL, "--set", "train.epochs=5000", "--output", "run")
    assert main(["train", "--resume", "run"]) == 2
    told = capsys.readouterr().err
    assert f"run: in use by process {process.pid} on" in told
    assert "stop it" in told
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # impatience costs nothing
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (143, "")
    assert "stopped; go on with: python -m torch_ref train --resume run" in out
    assert Checkpoints(folder / "run/checkpoints").load("last")[1]["epoch"] == (
        len(results(folder / "run")) - 1
    )
    assert not list((folder / "run").rglob(".*"))


def test_children_end_with_a_killed_parent(folder):
    length = ["--set", "train.epochs=5000"]
    process = started(folder, *SMALL, *length, "--controls", "--output", "run")
    lock = folder / "run/controls/uniform/.lock"
    deadline = time.monotonic() + 120
    while not (lock.exists() and lock.read_text()):  # made first, then taken, then signed
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(UserError, match="in use by process"):
        Lock(lock, folder)
    process.kill()
    process.communicate()
    while True:  # what the kernel still holds, a process still has
        try:
            Lock(lock, folder).release()
            break
        except UserError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_sigterm_in_an_extraction_saves_every_batch(at, tmp_path, monkeypatch, capsys):
    from tests.thin_runs import MODEL

    command = ["extract", *MODEL, "--source", "ink=sources", "--source", "chalk=sources"]
    command += ["--images", "clay", "--classes", "classes.txt", "--target", "clay", "--batch", "4"]
    command += ["--output", str(tmp_path / "bank")]
    original, calls = extracting.features_of, []

    def seen(*arguments):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)

    monkeypatch.setattr(extracting, "features_of", seen)
    assert main(command) == 143
    assert "the same command goes on" in capsys.readouterr().err
    state = json.loads((tmp_path / "bank.partial/state.json").read_text())
    assert state["done"] == 8
    assert main(command) == 0
    assert "going on after 8 of 18 images" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["bank"]


def test_handlers_are_put_back_and_nohup_is_respected(folder):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        before = signal.getsignal(signal.SIGTERM)
        assert main(["equations"]) == 0
        assert signal.getsignal(signal.SIGTERM) is before
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("name", ["kills", "soak"])
def test_the_page_has_what_was_measured(name):
    assert getattr(reliability, name)() in (ROOT / "docs/reliability.md").read_text()


def test_the_figures_are_what_is_promised():
    """200 kills over training and extraction, all gone on with; memory flat within 2%."""
    found = reliability.record("kills")["random"]
    counted = [part for name, part in found.items() if name.startswith(("training", "extraction"))]
    assert sum(part["kills"] for part in counted) >= 200
    assert all(part["clean_resumes"] == part["kills"] for part in found.values())
    assert abs(reliability.record("soak")["worst_percent"]) <= 2
