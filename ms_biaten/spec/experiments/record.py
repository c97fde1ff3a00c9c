"""The record of an experiment: one JSON line per finished cell, appended and never rewritten."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.experiments.grid import Cell

Line = dict[str, Any]
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
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror})") from None
        self._whole = content.rfind(b"\n") + 1  # a line and its end are written at once
        self.torn = self._whole < len(content)
        for number, text in enumerate(content[: self._whole].splitlines(), 1):
            self.lines.append(_parse(text, f"{self.path}: line {number}"))

    def append(self, line: Line) -> None:
        """On disk, whole, before the next cell begins."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if self.torn:
                file.truncate(self._whole)
                self.torn = False
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
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
    names = (line["method"], line.get("weights", "native"), overrides)
    return (*names, line["profile"], line["target"], line["seed"])


def _parse(text: bytes, where: str) -> Line:
    try:
        line = json.loads(text)
    except ValueError:
        raise UserError(f"{where} is not JSON; remove it, its cell runs again") from None
    if not isinstance(line, dict):
        raise UserError(f"{where} is not a JSON object; remove it, its cell runs again")
    missing = [name for name in NEEDED if name not in line]
    if "key" in line and "failed" not in line and missing:
        raise UserError(f"{where} has no '{missing[0]}'; remove it, its cell runs again")
    return line
