"""Which cores threads may use while an engine works on a CPU.

MindSpore has a thread for every core: one runs a graph and takes its part in every kernel
(ActorThread), the others wait for theirs in a loop (KernelThread). The scheduler may put the first
on the core of one that waits, or of whoever has called the graph. Then a kernel takes twice its
time, and another core is idle, until the scheduler looks again, some milliseconds later.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

WAITING = "KernelThread"  # how MindSpore names those of its threads that wait for kernels
THREADS, LOAD = Path("/proc/self/task"), Path("/proc/loadavg")
LOOKS, APART = 5, 0.002  # seconds: how often, and how far apart, others are looked for


@contextlib.contextmanager
def undisturbed():
    """The caller and MindSpore's waiting threads leave a core to the one that runs graphs.

    Threads that are started meanwhile do the same, and afterwards all may use every core again.
    Nothing is done where there is a single core, no such thread yet, or a system that has no say;
    nor beside other busy processes: all would leave the same core, and the scheduler does better.
    """
    waiting, every = named(WAITING), cores_of(0)
    others = every - {min(every, default=0)}
    if not waiting or not others or not alone():
        yield
        return
    before = {thread for thread in named("") if cores_of(thread) == others}
    for thread in (threading.get_native_id(), *waiting):
        hold(thread, others)
    try:
        yield
    finally:
        for thread in set(named("")) - before:
            if cores_of(thread) == others:
                hold(thread, every)


def named(start):
    """The threads of this process whose names begin so."""
    return [thread for thread, name in read("comm").items() if name.startswith(start)]


def alone():
    """Whether, at one of a few looks, no thread of another process runs or waits for a core."""
    for look in range(LOOKS):
        if look:
            time.sleep(APART)
        try:
            running = int(LOAD.read_text().split()[3].split("/")[0])
        except (OSError, ValueError, IndexError):
            return False
        own = sum(text.rpartition(")")[2].split()[0] == "R" for text in read("stat").values())
        if running <= own:
            return True
    return False


def read(file):
    """{thread: what `file` says of it}; none where the system does not tell."""
    found = {}
    with contextlib.suppress(OSError):
        for task in THREADS.iterdir():
            with contextlib.suppress(OSError):  # a thread may end while it is looked at
                found[int(task.name)] = (task / file).read_text()
    return found


def cores_of(thread):
    """Those that a thread may use, 0 the caller's own; none where the system does not tell."""
    try:
        return os.sched_getaffinity(thread)
    except (AttributeError, OSError):
        return set()


def hold(thread, cores):
    with contextlib.suppress(OSError):  # ended, or a sandbox refuses it; nothing depends on it
        os.sched_setaffinity(thread, cores)
