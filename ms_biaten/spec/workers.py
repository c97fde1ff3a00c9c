"""Who works on a run: one process, or several that share its batches and its target."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from ms_biaten.spec.bank import Bank
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.schedules import batch_starts


def asked() -> int:
    """How many workers `msrun` was told to start; 1 without it. Known before any of them meet."""
    return int(os.environ.get("MS_WORKER_NUM", "1"))


def meet(framework: Any, program: str) -> Workers:
    """All workers, once the device is chosen; the scheduler of `msrun` never comes back."""
    workers: Workers = framework.workers()
    if workers.size != asked():
        raise UserError(f"{program} works in one process; let msrun start ms-biaten")
    return workers


def check_parts(samples: int, batch_size: int) -> None:
    """Every worker needs a row of every batch, of the last and shortest, too."""
    starts = batch_starts(samples, batch_size)
    shortest = min(batch_size, samples - starts[-1])
    if shortest < asked():
        raise UserError(
            f"{asked()} workers, but the shortest batch of an epoch has {shortest} samples; start "
            "fewer, or set another train.batch_size"
        )


class Workers:
    """One process that does it all; a framework's own class is several of them."""

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size

    @property
    def main(self) -> bool:
        """The one that writes and speaks."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        return self.size > 1

    # -- who does what -------------------------------------------------------------------------

    def part(self, rows: np.ndarray) -> np.ndarray:
        """This worker's rows of a batch."""
        return np.array_split(rows, self.size)[self.rank]

    def span(self, count: int) -> slice:
        """This worker's rows of the target."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def shard(self, bank: Bank) -> Bank:
        """This worker's rows of the bank; the others are not read."""
        if not self.several:
            return bank
        return bank.span(self.span(len(bank)))

    # -- what they tell each other -------------------------------------------------------------

    def gathered(self, array: np.ndarray) -> np.ndarray:
        """The rows of all workers, in their order; every worker has them."""
        return array

    def merged(self, labels: np.ndarray) -> np.ndarray:
        """Labels (M,), of which each worker knows some and has -1 for the others."""
        if not self.several:
            return labels
        known = np.flatnonzero(labels >= 0)
        rows, values = self.gathered(known), self.gathered(labels[known])
        whole = np.full_like(labels, -1)
        whole[rows] = values
        return whole

    def gathered_texts(self, texts: list[str]) -> list[str]:
        """Lines of text, of all workers."""
        if not self.several:
            return texts
        told = "".join(json.dumps(text) + "\n" for text in texts).encode()  # ASCII, by JSON
        whole = self.gathered(np.frombuffer(told, np.uint8)).tobytes()
        return [json.loads(line) for line in whole.splitlines()]

    def wait(self) -> None:
        """Until all have come this far."""

    # -- the run -------------------------------------------------------------------------------

    def begin(self, go_on: str) -> None:
        """From here on there is something to go on with, and how, should a worker be killed."""

    def leave(self) -> None:
        """The run is over for all of them."""
