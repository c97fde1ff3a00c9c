"""The paper's Figure 7 as a matrix: lambda down, gamma across, a table for each target."""

from __future__ import annotations

from ms_biaten.spec.experiments.layout import Table
from ms_biaten.spec.experiments.methods import GAMMAS, LAMBDAS, swept
from ms_biaten.spec.experiments.results import Results, spread


def sweep_tables(results: Results) -> list[Table]:
    return [_table(results, p, target) for p in results.profiles for target in results.targets]


def _table(results: Results, profile: str, target: str) -> Table:
    def accuracy(lambda_intra: float, gamma: float) -> str:
        return spread(results.field(swept(lambda_intra, gamma), profile, target, "accuracy"))

    return Table(
        f"{results.about(profile, target)}: accuracy of Bi-ATEN in per cent.",
        [f"{profile} profile, →{target}", *(f"γ = {gamma:g}" for gamma in GAMMAS)],  # noqa: RUF001
        [[[f"λ = {x:g}", *(accuracy(x, gamma) for gamma in GAMMAS)] for x in LAMBDAS]],
        results.failures(profile, target),
    )
