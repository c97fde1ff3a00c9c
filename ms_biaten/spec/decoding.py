"""Image files decoded ahead of who computes with them, in order, by threads.

Threads, not processes: Pillow and NumPy let go of the interpreter while they decode and resize, and
neither framework survives a fork.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Job = TypeVar("Job")
Item = TypeVar("Item")

AHEAD = 2  # batches on their way while one is computed with


def decoded(
    batches: Iterable[Iterable[Job]], read: Callable[[Job], Item], workers: int
) -> Iterator[list[Item]]:
    """`read` of every job, batch by batch; without workers in this thread, when it is asked for."""
    if not workers:
        for batch in batches:
            yield [read(job) for job in batch]
        return
    waiting: deque[list[Future[Item]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
    try:
        for batch in batches:
            waiting.append([pool.submit(read, job) for job in batch])
            if len(waiting) > AHEAD:
                yield [future.result() for future in waiting.popleft()]
        while waiting:
            yield [future.result() for future in waiting.popleft()]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def in_batches(start: int, stop: int, size: int) -> Iterator[range]:
    for first in range(start, stop, size):
        yield range(first, min(first + size, stop))
