"""A grid of runs: rows (methods) x targets x profiles x seeds, as a plain list of cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ms_biaten.spec.config import Config
from ms_biaten.spec.history import UNTRAINED
from ms_biaten.spec.loading import load_config

Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Row:
    title: str
    settings: Settings  # dotted names and typed values, above the config's and `--set`
    control: str = ""  # title of the row that shows what this one gains

    @property
    def method(self) -> str:
        return str(dict(self.settings).get("method.name", "bi_aten"))

    @property
    def weights(self) -> str:
        return str(dict(self.settings).get("method.weights", "native"))

    @property
    def overrides(self) -> dict[str, Any]:
        """What it sets beyond its method."""
        return {key: value for key, value in self.settings if not key.startswith("method.")}


@dataclass(frozen=True)
class Cell:
    row: Row
    profile: str
    target: str
    seed: int

    def __str__(self) -> str:
        return f"{self.row.title} →{self.target}, {self.profile} profile, seed {self.seed}"

    def config(self, file: str, overrides: Iterable[str] = ()) -> Config:
        return load_config(
            file,
            target=self.target,
            profile=self.profile,
            overrides=overrides,
            settings={**dict(self.row.settings), "run.seed": self.seed},
        )

    def settings(self) -> dict[str, Any]:
        """What a line of the record says of its cell."""
        return {
            "method": self.row.method,
            "weights": self.row.weights,
            "overrides": self.row.overrides,
            "profile": self.profile,
            "target": self.target,
            "seed": self.seed,
        }


def seeds_of(row: Row, seeds: int) -> range:
    """What trains nothing has one seed."""
    return range(1 if row.method in UNTRAINED else seeds)


def cells(
    rows: Sequence[Row], profiles: Sequence[str], targets: Sequence[str], seeds: int
) -> list[Cell]:
    return [
        Cell(row, profile, target, seed)
        for profile in profiles
        for target in targets
        for row in rows
        for seed in seeds_of(row, seeds)
    ]
