"""How far two cores are from each other: the time of a message there and back.

    python -m benchmarks.cores_apart

A virtual machine's two cores may share a cache at one moment and not at the next, wherever its host
puts them. What one core has written, the other then fetches from afar: a step takes longer, and
some steps more so than others. So every round of `python -m benchmarks` is recorded with this.
"""

import os
import time
from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory
from statistics import median

ROUNDS, TRIPS = 20, 1000
NEAR = 400  # nanoseconds at most; on two machines it was 160 or 650, and 240 or 660
ASK, ANSWER = 0, 64  # places in different lines of a cache


def round_trip_ns():
    """A median over rounds, Python's own loops included; None where there are no two cores."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None
    memory = SharedMemory(create=True, size=128)
    other = get_context("fork").Process(target=answer, args=(memory.name, cores[1]))
    other.start()
    os.sched_setaffinity(0, cores[:1])
    try:
        return round(median(trips(memory.buf) for _ in range(ROUNDS)))
    finally:
        os.sched_setaffinity(0, cores)
        other.join()
        memory.close()
        memory.unlink()


def distance():
    """`near` or `far`."""
    taken = round_trip_ns()
    if taken is None:
        raise SystemExit("there is only one core")
    return named(taken)


def named(nanoseconds):
    return "near" if nanoseconds <= NEAR else "far"


def trips(places):
    begun = time.perf_counter_ns()
    for message in messages():
        places[ASK] = message
        while places[ANSWER] != message:
            pass
    return (time.perf_counter_ns() - begun) / TRIPS


def answer(name, core):
    os.sched_setaffinity(0, {core})
    memory = SharedMemory(name)
    places = memory.buf
    for _ in range(ROUNDS):
        for message in messages():
            while places[ASK] != message:
                pass
            places[ANSWER] = message
    del places
    memory.close()


def messages():
    """Each unlike the one before it, also across rounds."""
    return (1 + number % 2 for number in range(TRIPS))


if __name__ == "__main__":
    print(f"{round_trip_ns()} ns there and back")
