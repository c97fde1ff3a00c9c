"""What the folder of a run says of it, whole or half-written; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.loading import from_tree, read_yaml
from ms_biaten.spec.metrics import LABEL_FREE

UNTRAINED = ("avg_ens", "bn_only")
Line = dict[str, Any]


@dataclass(frozen=True)
class History:
    """The lines of a run by kind, and its config."""

    path: Path
    config: Config
    start: Line | None  # None: killed before its first line
    epochs: list[Line]
    final: Line | None  # None: not finished

    @property
    def planned(self) -> int:
        """How many epochs the run was to have."""
        return 0 if self.config.method.name in UNTRAINED else self.config.train.epochs

    @property
    def reached(self) -> str:
        return f"epoch {len(self.epochs)} of {self.planned}"

    @property
    def last(self) -> Line | None:
        """The latest line with measures."""
        return self.final or (self.epochs[-1] if self.epochs else self.start)


def read_history(path: Path) -> History:
    """The run in this folder, finished or not."""
    if not (path / "config.yaml").is_file():
        raise UserError(
            f"{path} holds no run (config.yaml is missing); name a folder that `train` wrote"
        )
    config = from_tree(read_yaml(path / "config.yaml"), str(path / "config.yaml"))
    lines = read_lines(path / "results.jsonl")
    for number, line in enumerate(lines, 1):
        _check(line, number, path / "results.jsonl")
    kinds = {kind: [ln for ln in lines if ln["kind"] == kind] for kind in REQUIRED}
    first, last = kinds["start"], kinds["final"]
    return History(
        path, config, first[0] if first else None, kinds["epoch"], last[-1] if last else None
    )


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Every folder at or below the places that holds the results of a run."""
    found: list[Path] = []
    for place in places:
        runs = sorted(path.parent for path in place.rglob("results.jsonl"))
        if not runs:
            raise UserError(f"{place}: no run there (no results.jsonl); name runs or their folder")
        found += [run for run in runs if run not in found]
    return found


def read_lines(path: Path) -> list[Line]:
    """The JSON lines of a file; none where there is no file."""
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable as JSON lines ({error})") from None


REQUIRED: dict[str, tuple[str, ...]] = {  # numbers that each kind of line must have
    "start": ("epoch", *LABEL_FREE),
    "epoch": ("epoch", *LABEL_FREE),
    "final": ("selected_epoch", *LABEL_FREE),
}


def _check(line: Any, number: int, path: Path) -> None:
    kind = line.get("kind") if isinstance(line, dict) else None
    if kind not in REQUIRED:
        raise UserError(
            f"{path}: line {number} is no start, epoch or final line of a run; restore the file "
            "or run again"
        )
    for key in REQUIRED[kind]:
        if type(line.get(key)) not in (int, float):
            raise UserError(
                f"{path}: line {number} has no number '{key}'; restore the file or run again"
            )
