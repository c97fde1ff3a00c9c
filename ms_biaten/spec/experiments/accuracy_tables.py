"""Methods x targets, a table for each profile: the controls and the paper's Tables 2, 3 and 4."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from ms_biaten.spec.experiments.grid import Row
from ms_biaten.spec.experiments.layout import NONE, Table
from ms_biaten.spec.experiments.noise import gains
from ms_biaten.spec.experiments.paper import cited_rows
from ms_biaten.spec.experiments.results import Results, Values, mean_over_targets, spread

SINGLE = "mean single source"
BEST_SINGLE = "best single source (chosen with labels)"
AVERAGE = "AVG-ENS"
COST = (
    "Parameters: trained (the paper's count holds the frozen classifiers, too). Time: one run on "
    "the first target, evaluations included, median over seeds, on this machine."
)


def by_target(cited: str = "", sources: bool = True) -> Callable[[Results], list[Table]]:
    """`cited`: the paper's table that follows; `sources`: begin with the unadapted sources."""

    def tables(results: Results) -> list[Table]:
        return [_table(results, profile, cited, sources) for profile in results.profiles]

    return tables


def _table(results: Results, profile: str, cited: str, sources: bool) -> Table:
    own = [[row.title, *_texts(results.accuracies(row, profile))] for row in results.rows]
    # "paper" alone would be taken for the paper's numbers where those follow.
    corner = f"{profile} profile" if cited else profile
    return Table(
        f"{results.about(profile)}: accuracy in per cent.",
        [corner, *(f"→{target}" for target in results.targets), "mean"],
        [
            _source_rows(results, profile) if sources else [],
            own,
            cited_rows(cited, results.benchmark.name, results.targets) if cited else [],
        ],
        [*gains(results, profile), *results.failures(profile)],
    )


def _source_rows(results: Results, profile: str) -> list[list[str]]:
    """What the sources do unadapted: every run has measured it."""
    columns: dict[str, list[Values]] = {SINGLE: [], BEST_SINGLE: [], AVERAGE: []}
    for target in results.targets:
        base = results.baselines(profile, target)
        single = [value for name, value in base.items() if name.startswith("source ")]
        columns[SINGLE].append([statistics.mean(single)] if single else None)
        columns[BEST_SINGLE].append([max(single)] if single else None)
        columns[AVERAGE].append([base[AVERAGE]] if AVERAGE in base else None)
    return [[title, *_texts(values)] for title, values in columns.items()]


def _texts(columns: list[Values]) -> list[str]:
    return [spread(values) for values in (*columns, mean_over_targets(columns))]


def with_cost(results: Results) -> list[Table]:
    """The paper's Table 2: accuracies, trained parameters and the time of a run."""
    tables = []
    for profile in results.profiles:
        sources = [[*row, NONE, NONE] for row in _source_rows(results, profile)[-1:]]
        own = [
            [row.title, *_texts(results.accuracies(row, profile)), *_cost(results, row, profile)]
            for row in results.rows
        ]
        cited = cited_rows(
            "table2", results.benchmark.name, results.targets, ("parameters", "time")
        )
        tables.append(
            Table(
                f"{results.about(profile)}: accuracy in per cent.",
                [
                    f"{profile} profile",
                    *(f"→{target}" for target in results.targets),
                    *("mean", "parameters", "time"),
                ],
                [sources, own, cited],
                [
                    COST,
                    *gains(results, profile),
                    *results.failures(profile),
                ],
            )
        )
    return tables


def _cost(results: Results, row: Row, profile: str) -> list[str]:
    runs = results.runs(row, profile, results.targets[0])
    if runs is None:
        return [NONE, NONE]
    seconds = statistics.median(run["seconds"] for run in runs)
    return [f"{runs[0]['trained_parameters'] / 1e6:.2f}M", f"{seconds:,.0f} s"]
