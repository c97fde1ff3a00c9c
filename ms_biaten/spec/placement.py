"""Where a run keeps its features: `data.placement`.

disk     read from the file as they are needed, a batch ahead; memory does not grow with the target
host     all of them in memory, as they are stored
device   all of them beside the computing: no batch travels there
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from ms_biaten.spec.bank import Bank
from ms_biaten.spec.decoding import decoded, in_batches


def placed(bank: Bank, placement: str) -> Bank:
    """A bank as `load_bank` maps it, read the way `placement` says; `device` begins as `disk`."""
    if not isinstance(bank.features, np.memmap):
        return bank  # made in memory
    if placement == "host":
        return replace(bank, features=np.array(bank.features))
    return FileBank(**_same(bank), file=RowFile(bank.features))


class RowFile:
    """Rows of a stored array by plain reads: mapped pages would count as this process's memory."""

    def __init__(self, mapped: np.memmap):
        self.path, self.offset = Path(str(mapped.filename)), int(mapped.offset)
        self.shape, self.dtype = mapped.shape[1:], mapped.dtype
        self.stride = int(np.prod(self.shape)) * self.dtype.itemsize

    def from_row(self, row: int) -> RowFile:
        """The same file, rows counted from this one."""
        other = copy(self)
        other.offset = self.offset + row * self.stride
        return other

    def read(self, rows: np.ndarray | range) -> np.ndarray:
        """In the order asked for; neighbours in one read."""
        made = np.empty((len(rows), *self.shape), self.dtype)
        with self.path.open("rb", buffering=0) as file:
            for first, count, place in _runs(rows):
                file.seek(self.offset + first * self.stride)
                part = made[place : place + count].data.cast("B")
                while part:
                    got = file.readinto(part)
                    if not got:
                        raise OSError(f"{self.path}: ends before row {first + count}")
                    part = part[got:]
        return made


def _runs(rows: np.ndarray | range) -> Iterator[tuple[int, int, int]]:
    """Rows that follow each other: (first row, how many, where the first is wanted)."""
    if isinstance(rows, range):
        yield rows.start, len(rows), 0
        return
    for place, row in enumerate(rows.tolist()):
        yield row, 1, place


@dataclass(frozen=True)
class FileBank(Bank):
    """Features stay in their file; a thread reads a batch ahead of who computes."""

    file: RowFile = field(default=None)  # type: ignore[assignment]  # always given

    def span(self, rows: slice) -> FileBank:
        part = cast(FileBank, super().span(rows))
        return replace(part, file=self.file.from_row(rows.start))

    def rows(self, rows: np.ndarray) -> np.ndarray:
        return self.file.read(rows).astype(np.float32, copy=False)

    def batches(
        self, rows: Iterable[np.ndarray], epoch: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        def read(batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return batch, self.rows(batch)

        for (pair,) in decoded(((batch,) for batch in rows), read, 1):
            yield pair

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        def read(part: range) -> np.ndarray:
            return self.file.read(part).astype(np.float32, copy=False)

        for (chunk,) in decoded(((part,) for part in in_batches(0, len(self), size)), read, 1):
            yield chunk


class Device(Protocol):
    """What an engine offers to keep features: its own arrays stay its own business."""

    def keep(self, features: np.ndarray) -> Any:
        """As they are stored, beside the computing."""

    def pick(self, kept: Any, rows: np.ndarray) -> Any:
        """Those rows, in single precision."""


@dataclass(frozen=True)
class DeviceBank(Bank):
    """Features beside the computing; rows are picked there."""

    device: Device = field(default=None)  # type: ignore[assignment]  # always given
    kept: Any = None
    first: int = 0  # the row of what is kept that this bank begins with

    @classmethod
    def of(cls, bank: Bank, device: Device) -> DeviceBank:
        return cls(**_same(bank), device=device, kept=device.keep(np.array(bank.features)))

    def span(self, rows: slice) -> DeviceBank:
        part = cast(DeviceBank, super().span(rows))
        return replace(part, first=self.first + rows.start)

    def rows(self, rows: np.ndarray) -> Any:
        return self.device.pick(self.kept, rows + self.first)

    def chunks(self, size: int) -> Iterator[Any]:
        for part in in_batches(0, len(self), size):
            yield self.rows(np.arange(part.start, part.stop))


def _same(bank: Bank) -> dict[str, Any]:
    return {f.name: getattr(bank, f.name) for f in fields(Bank)}
