"""What the folder of a run says of it, whole or half-written; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_biaten.spec.checks import (
    Test,
    between,
    by_name,
    each,
    is_count,
    is_flag,
    is_number,
    is_text,
    or_none,
)
from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.loading import from_tree
from ms_biaten.spec.metrics import LABEL_FREE
from ms_biaten.spec.reading import read_json_lines, read_yaml

RESTORE = "restore the file or run again"
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
    check_lines(lines, path / "results.jsonl")
    kinds = {kind: [ln for ln in lines if ln["kind"] == kind] for kind in REQUIRED}
    first, last = kinds["start"], kinds["final"]
    return History(
        path, config, first[0] if first else None, kinds["epoch"], last[-1] if last else None
    )


def check_sources(lines: Iterable[Line], count: int, path: Path) -> None:
    """What a table or a page needs beside measures: weights of all sources, how it was chosen."""
    for number, line in enumerate(lines, 1):
        for key in ("rule", "oracle", "beta") if line["kind"] == "final" else ():
            if key not in line:
                raise UserError(f"{path}: line {number} has no '{key}'; {RESTORE}")
        beta, alpha = line.get("beta"), line.get("alpha")
        square = alpha is None or [len(row) for row in alpha] == [count] * count
        if not square or (beta is not None and len(beta) != count):
            raise UserError(
                f"{path}: line {number} has not the weights of {count} sources; {RESTORE}"
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
    return read_json_lines(path, RESTORE)


REQUIRED: dict[str, tuple[str, ...]] = {  # numbers that each kind of line must have
    "start": ("epoch", *LABEL_FREE),
    "epoch": ("epoch", *LABEL_FREE),
    "final": ("selected_epoch", *LABEL_FREE),
}


is_percent = between(0, 100)
is_weight = between(-1e6, 1e6)  # a figure has no room for more


def is_sign(value: Any) -> bool:
    """A warning of `health`."""
    return by_name(is_text)(value) and {"about", "text", "try"} <= value.keys()


def is_provenance(value: Any) -> bool:
    """Where the numbers come from, as far as anybody reads it."""
    if not isinstance(value, dict):
        return False
    data, machine = value.get("data", {}), value.get("machine", {})
    return (
        isinstance(data, dict)
        and by_name(is_text)(data.get("heads", {}))
        and isinstance(machine, dict)
        and is_count(machine.get("workers", 1))
    )


KNOWN: dict[str, Test] = {  # what the other entries must be, where they are there
    **dict.fromkeys(("epoch", "selected_epoch", "trained_parameters"), is_count),
    **dict.fromkeys(("accuracy", "class_accuracy", "label_accuracy"), is_percent),
    "seconds": is_number,
    **dict.fromkeys(("loss", "ce", "im_loss", "intra", "consistency", "diversity"), is_number),
    "baselines": by_name(is_percent),
    "versions": by_name(is_text),
    "beta": each(is_weight),
    "alpha": each(each(is_weight)),
    "sha256": by_name(or_none(is_text)),
    "warnings": each(is_sign),
    "provenance": is_provenance,
    "rule": is_text,
    "oracle": is_flag,
    "one_hot": or_none(is_flag),
}


def check_lines(lines: Iterable[Any], path: Path) -> None:
    """Everything that is read of a run's results: their names are known, their kinds right."""
    for number, line in enumerate(lines, 1):
        _check(line, number, path)


def _check(line: Any, number: int, path: Path) -> None:
    kind = line.get("kind") if isinstance(line, dict) else None
    if not isinstance(kind, str) or kind not in REQUIRED:
        raise UserError(
            f"{path}: line {number} is no start, epoch or final line of a run; {RESTORE}"
        )
    for key in REQUIRED[kind]:
        if not is_number(line.get(key)):
            raise UserError(f"{path}: line {number} has no number '{key}'; {RESTORE}")
    for key in KNOWN.keys() & line.keys():
        if not KNOWN[key](line[key]):
            raise UserError(f"{path}: line {number}: '{key}' is damaged; {RESTORE}")
