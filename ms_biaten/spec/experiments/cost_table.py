"""The paper's Table 1: what a method trains, how fast, and how well."""

from __future__ import annotations

import statistics

from ms_biaten.spec.experiments.grid import Row
from ms_biaten.spec.experiments.layout import NONE, Table
from ms_biaten.spec.experiments.noise import gains
from ms_biaten.spec.experiments.paper import paper
from ms_biaten.spec.experiments.results import Results, mean_over_targets, spread

MEASURED = (
    "Samples per second: the samples of an epoch by the seconds of the run's median epoch (pseudo "
    "labels, steps, and the evaluation after them; cached features), median over runs, on this "
    "machine. Accuracy: mean over targets."
)
THEIRS = "paper (cited)"
CITED = (
    "Cited: parameters (of ATEN and Bi-ATEN with the frozen classifiers), throughput as printed, "
    "accuracy, all on DomainNet."
)


def cost_tables(results: Results) -> list[Table]:
    return [_table(results, profile) for profile in results.profiles]


def _table(results: Results, profile: str) -> Table:
    theirs = {
        row["method"]: f"{row['parameters']}; {row['throughput']}; {row['accuracy']:.1f}"
        f" ({row['backbone']})"
        for row in paper()["table1"]
    }
    own = [
        [row.title, *_measured(results, row, profile), theirs.pop(row.title, NONE)]
        for row in results.rows
    ]
    return Table(
        f"{results.about(profile)}: cost and accuracy.",
        [f"{profile} profile", "trained parameters", "samples per second", "accuracy", THEIRS],
        [own, [[title, NONE, NONE, NONE, text] for title, text in theirs.items()]],
        [MEASURED, CITED, *gains(results, profile), *results.failures(profile)],
    )


def _measured(results: Results, row: Row, profile: str) -> list[str]:
    accuracy = spread(mean_over_targets(results.accuracies(row, profile)))
    runs = [results.runs(row, profile, target) for target in results.targets]
    done = [run for some in runs if some is not None for run in some]
    if not done:
        return [NONE, NONE, accuracy]
    speeds = [run["samples_per_second"] for run in done if run.get("samples_per_second")]
    speed = f"{statistics.median(speeds):,.0f}" if speeds else NONE
    return [f"{done[0]['trained_parameters']:,}", speed, accuracy]
