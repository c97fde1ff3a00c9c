"""SIGTERM and SIGHUP stop a command as Ctrl-C does, and children do not outlive their parent."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO = 10.0  # seconds in which a further signal means the same stop; what is being saved is saved


class Stopped(KeyboardInterrupt):
    """Asked to stop by a signal."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def code_of(stop: KeyboardInterrupt) -> int:
    """The exit code: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return stop.code if isinstance(stop, Stopped) else 130


@contextmanager
def signals_stop() -> Iterator[None]:
    """Signals become `Stopped` while this lasts."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    listen()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def listen() -> None:
    """Signals become `Stopped`, but for those that somebody chose to ignore, as `nohup` does."""
    first = float("-inf")

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if time.monotonic() - first > ECHO:
            first = time.monotonic()
            raise Stopped(number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def obey_parent() -> None:
    """In a child process: stops when it is told to, and ends when its parent is killed."""
    listen()
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def stop_children() -> None:
    """Asks all of them; each saves what it has."""
    for child in multiprocessing.active_children():
        child.terminate()
