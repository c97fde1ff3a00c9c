"""Workers of one machine look after each other: a killed one would leave the rest waiting for it.

`msrun` ends them, too, within a second, but without a word on how to go on.
"""

import atexit
import os
import select
import socket
import sys
import threading
import zlib

import numpy as np


class Watch:
    """What a worker knows of its work: how to go on with it, and whether it is over."""

    go_on, over = "", False

    def begin(self, go_on):
        self.go_on, self.over = go_on, False

    def end(self):
        """From here on, a worker that is gone is one that has finished."""
        self.over = True

    def line(self, worker):
        more = f"; go on with: {self.go_on}" if self.go_on else ""
        return f"ms-biaten: worker {worker} is gone, its log may say why{more}"


def watch(gathered, rank):
    """Tells the others who we are, and ends this worker with a clear line when one is gone."""
    state = Watch()
    atexit.register(state.end)  # a worker that ends by its own error says so itself
    machine = zlib.crc32(socket.gethostname().encode()) >> 8  # 24 bits: exact in float32
    everyone = gathered(np.array([[machine, os.getpid()]], np.int64))
    near = {
        worker: int(pid)
        for worker, (place, pid) in enumerate(everyone)
        if place == machine and worker != rank
    }
    try:
        here = {os.pidfd_open(pid): worker for worker, pid in near.items()}
    except (AttributeError, OSError):  # not Linux, or not allowed: `msrun` still ends them
        here = {}

    def look():
        ended, _, _ = select.select(list(here), [], [])  # sleeps until one of them ends
        if not state.over:
            print(state.line(here[ended[0]]), file=sys.stderr, flush=True)
            os._exit(1)

    if here:
        threading.Thread(target=look, daemon=True).start()
    return state
