"""The lines of a grid, as tables ask for them: by row, profile and target, over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ms_biaten.spec.benchmarks import Benchmark
from ms_biaten.spec.experiments.grid import Cell, Row, seeds_of
from ms_biaten.spec.experiments.record import Line

Values = list[float] | None  # over seeds; None: one of them failed or was not run


@dataclass(frozen=True)
class Results:
    benchmark: Benchmark
    rows: Sequence[Row]
    profiles: Sequence[str]
    targets: Sequence[str]
    seeds: int
    lines: Mapping[Cell, Line]

    def about(self, profile: str, target: str = "") -> str:
        place = f", target {target}" if target else ""
        seeds = f", mean ± deviation over {self.seeds} seeds" if self.seeds > 1 else ""
        return f"{self.benchmark.title}, {profile} profile{place}{seeds}"

    def runs(self, row: Row, profile: str, target: str) -> list[Line] | None:
        cells = [Cell(row, profile, target, seed) for seed in seeds_of(row, self.seeds)]
        if any("failed" in self.lines.get(cell, {"failed": ""}) for cell in cells):
            return None
        return [self.lines[cell] for cell in cells]

    def field(self, row: Row, profile: str, target: str, name: str) -> list[Any] | None:
        runs = self.runs(row, profile, target)
        return None if runs is None else [run.get(name) for run in runs]

    def accuracies(self, row: Row, profile: str) -> list[Values]:
        """One entry per target."""
        return [self.field(row, profile, target, "accuracy") for target in self.targets]

    def baselines(self, profile: str, target: str) -> dict[str, float]:
        """Each source alone and their average; the same in every run of a target."""
        for cell, line in self.lines.items():
            if (cell.profile, cell.target) == (profile, target) and "baselines" in line:
                return dict(line["baselines"])
        return {}

    def failures(self, profile: str, target: str = "") -> list[str]:
        return [
            f"failed: {cell}: {line['failed']}"
            for cell, line in self.lines.items()
            if "failed" in line and cell.profile == profile and target in ("", cell.target)
        ]


def mean_over_targets(columns: Sequence[Values]) -> Values:
    """The mean of the columns, seed by seed."""
    whole = [column for column in columns if column is not None]
    if len(whole) < len(columns) or not whole:
        return None
    seeds = min(len(column) for column in whole)
    return [statistics.mean(column[seed] for column in whole) for seed in range(seeds)]


def spread(values: Values) -> str:
    """Mean and sample deviation over seeds; one value alone has none."""
    if values is None:
        return "failed"
    mean = statistics.mean(values)
    return f"{mean:.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else f"{mean:.1f}"
