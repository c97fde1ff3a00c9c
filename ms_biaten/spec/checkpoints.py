"""The checkpoints of a run: `last` and `best`, each with the one before it.

A kill may fall between any two writes, and a disk may spoil a file: `latest` finds a state that is
whole, and `go_on` makes all of them agree with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ms_biaten.spec.checks import is_count, is_number
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import link_atomically, remove_unfinished, sync_folder
from ms_biaten.spec.reading import parse_json
from ms_biaten.spec.states import DamagedError, read_state, write_state
from ms_biaten.spec.weights import Arrays, read_metadata

FORMAT = "2"
READABLE = ("1", FORMAT)  # 1: without a digest
BEFORE = {"last": "before", "best": "best_before"}
RESTORE = "restore the file, or run again"

State = tuple[Arrays, dict[str, Any]]


class Checkpoints:
    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def remove_unfinished(self) -> None:
        remove_unfinished(self.folder, *(self.path(n).name for n in (*BEFORE, *BEFORE.values())))

    def save(self, name: str, arrays: Arrays, position: dict[str, Any]) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir()
            sync_folder(self.folder.parent)
        metadata = {"format": FORMAT, "position": json.dumps(position)}
        write_state(self.path(name), self.path(BEFORE[name]), arrays, metadata)

    def load(self, name: str) -> State:
        path = self.path(name)
        arrays, metadata = read_state(path)
        if metadata.get("format") not in READABLE:
            raise UserError(
                f"{path}: checkpoint format {metadata.get('format')}, this release reads "
                f"{' and '.join(READABLE)}; update ms_biaten, or run again"
            )
        position = position_of(metadata)
        if position is None:
            raise DamagedError(f"{path}: says no epoch that it was written after; {RESTORE}")
        return arrays, position

    def latest(self, say: Callable[[str], None]) -> State | None:
        """The state to go on from: `last`, or where that is damaged the one before it."""
        last, before = self.path("last"), self.path(BEFORE["last"])
        if not last.is_file() and not before.is_file():
            return None
        try:
            return self.load("last")
        except DamagedError as damage:
            if not before.is_file():
                raise
            state = self.load(BEFORE["last"])
            say(f"{damage}; going on from {before}")
            return state

    def go_on(self, position: dict[str, Any]) -> None:
        """`last` and `best` as they were at the position.

        A damaged `last` must not become `before`, nor a best epoch that is still to come again the
        one before it.
        """
        self._put_back("last", position["epoch"])
        if position["best"]:
            self._put_back("best", position["best"]["epoch"])

    def is_whole(self, name: str) -> bool:
        try:
            self.load(name)
        except DamagedError:
            return False
        return True

    def _put_back(self, name: str, epoch: int) -> None:
        """`name` from the one before it, where that is of the epoch and `name` is not."""
        if self._epoch_of(name) != epoch == self._epoch_of(BEFORE[name]):
            link_atomically(self.path(BEFORE[name]), self.path(name))

    def _epoch_of(self, name: str) -> int | None:
        try:
            position = position_of(read_metadata(self.path(name)))
        except UserError:
            return None
        return position["epoch"] if position else None


def position_of(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """How far a checkpoint came, and the best epoch before it; None where it does not say so."""
    try:
        position = parse_json(metadata.get("position", ""), "position", RESTORE)
    except UserError:
        return None
    if not isinstance(position, dict) or "best" not in position:
        return None
    best = position["best"]
    sound = all(is_count(position.get(key)) for key in ("epoch", "step", "seed"))
    if best is not None:
        sound = sound and isinstance(best, dict) and is_count(best.get("epoch"))
        sound = sound and is_number(best.get("value"))
    return position if sound else None
