"""The record of an experiment: one JSON line per finished cell, appended and never rewritten."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ms_biaten.spec.checks import Test, by_name, each, is_count, is_finite, is_text, or_none
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.experiments.grid import Cell
from ms_biaten.spec.files import sync_folder, write_at
from ms_biaten.spec.reading import parse_json, read_bytes

Line = dict[str, Any]
AGAIN = "remove it, its cell runs again"
KNOWN: dict[str, Test] = {  # what its entries must be, where they are there
    **dict.fromkeys(("key", "failed", "method", "weights", "profile", "target"), is_text),
    **dict.fromkeys(("seed", "trained_parameters", "selected_epoch"), is_count),
    **dict.fromkeys(("accuracy", "seconds", "class_accuracy"), is_finite),
    "samples_per_second": or_none(is_finite),
    "baselines": by_name(is_finite),
    "accuracies": each(is_finite),
    "overrides": lambda value: isinstance(value, dict),
}
NEEDED = ("accuracy", "baselines", "accuracies", "trained_parameters", "seconds")


class Record:
    """The lines of a file of results, and a way to add one."""

    def __init__(self, path: Path):
        self.path = path
        self.lines: list[Line] = []
        self.torn = False  # its last line was cut off by a kill; dropped
        self._whole = 0  # bytes of its whole lines
        if path.exists():
            self._read()

    def _read(self) -> None:
        content = read_bytes(self.path, "a record of experiments")
        self._whole = content.rfind(b"\n") + 1  # a line and its end are written at once
        self.torn = self._whole < len(content)
        for number, text in enumerate(content[: self._whole].splitlines(), 1):
            self.lines.append(_parse(text, f"{self.path}: line {number}"))

    def append(self, line: Line) -> None:
        """On disk, whole, before the next cell begins."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(line).encode() + b"\n"
        with self.path.open("ab", buffering=0) as file:
            if self.torn:
                file.truncate(self._whole)
            self.torn = True  # until all of it is there: a full disk may take half a line
            write_at(file, self._whole, content)
            os.fsync(file.fileno())
        sync_folder(self.path.parent)
        self._whole += len(content)
        self.torn = False
        self.lines.append(line)

    def by_key(self) -> dict[str, Line]:
        """The latest line of every key; lines of a record without keys are left out."""
        return {line["key"]: line for line in self.lines if "key" in line}


def by_settings(cells: Iterable[Cell], lines: Iterable[Line]) -> dict[Cell, Line]:
    """The lines of a record that holds one config, found without its banks."""
    known = {_settings(line): line for line in lines}
    found = {cell: known.get(_settings(cell.settings())) for cell in cells}
    return {cell: line for cell, line in found.items() if line is not None}


def _settings(line: Line) -> tuple[Any, ...]:
    overrides = json.dumps(line.get("overrides", {}), sort_keys=True)
    names = (line.get("method"), line.get("weights", "native"), overrides)
    return (*names, line.get("profile"), line.get("target"), line.get("seed"))


def _parse(text: bytes, where: str) -> Line:
    line = parse_json(text, where, AGAIN)
    if not isinstance(line, dict):
        raise UserError(f"{where} is not a JSON object; {AGAIN}")
    missing = [name for name in NEEDED if name not in line]
    if "key" in line and "failed" not in line and missing:
        raise UserError(f"{where} has no '{missing[0]}'; {AGAIN}")
    for key in KNOWN.keys() & line.keys():
        if not KNOWN[key](line[key]):
            raise UserError(f"{where}: '{key}' is damaged; {AGAIN}")
    return line
