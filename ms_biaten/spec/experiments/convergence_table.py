"""Accuracy on the way: the methods after selected epochs, a table for each target."""

from __future__ import annotations

from ms_biaten.spec.experiments.grid import Row
from ms_biaten.spec.experiments.layout import NONE, Table
from ms_biaten.spec.experiments.results import Results, spread

LOOKED_AT = (0, 1, 2, 5, 10, 15, 20, 30, 50, 100, 200, 500)


def convergence_tables(results: Results) -> list[Table]:
    return [_table(results, p, target) for p in results.profiles for target in results.targets]


def _table(results: Results, profile: str, target: str) -> Table:
    curves = {row: results.field(row, profile, target, "accuracies") for row in results.rows}
    last = max((len(c) - 1 for runs in curves.values() for c in runs or []), default=0)
    epochs = sorted({epoch for epoch in LOOKED_AT if epoch < last} | {last})

    def text(row: Row, epoch: int) -> str:
        runs = curves[row]
        if runs is None:
            return spread(None)
        return spread([c[epoch] for c in runs]) if all(epoch < len(c) for c in runs) else NONE

    return Table(
        f"{results.about(profile, target)}: accuracy in per cent by epoch.",
        [f"{profile} profile, →{target}", *(f"epoch {epoch}" for epoch in epochs)],
        [[[row.title, *(text(row, epoch) for epoch in epochs)] for row in results.rows]],
        results.failures(profile, target),
    )
