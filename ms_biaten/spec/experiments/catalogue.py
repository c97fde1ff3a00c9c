"""The experiments by name: which rows, on which targets and profiles, shown how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ms_biaten.spec.benchmarks import Benchmark
from ms_biaten.spec.experiments import methods
from ms_biaten.spec.experiments.accuracy_tables import by_target, with_cost
from ms_biaten.spec.experiments.convergence_table import convergence_tables
from ms_biaten.spec.experiments.cost_table import cost_tables
from ms_biaten.spec.experiments.grid import Row
from ms_biaten.spec.experiments.layout import Table
from ms_biaten.spec.experiments.results import Results
from ms_biaten.spec.experiments.sweep_table import sweep_tables
from ms_biaten.spec.profiles import PROFILES


@dataclass(frozen=True)
class Experiment:
    what: str
    rows: Sequence[Row]
    tables: Callable[[Results], list[Table]]
    profiles: Sequence[str] = ("paper",)
    seeds: int = 5
    targets: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by benchmark, if not all

    def targets_on(self, benchmark: Benchmark) -> Sequence[str]:
        return self.targets.get(benchmark.name, benchmark.domains)


EXPERIMENTS = {
    "controls": Experiment(
        "each method against what trains without attention, or not at all",
        methods.CONTROLS,
        by_target(),
        PROFILES,
    ),
    "table1": Experiment(
        "parameters, throughput and accuracy",
        (*methods.CONTROLS[1:], methods.SHOT, *methods.PLUGGED),
        cost_tables,
    ),
    "table2": Experiment(
        "methods x targets with parameters and time", methods.CONTROLS[1:], with_cost
    ),
    "table3": Experiment(
        "DECISION, CAiDA, DATE with their own weights, 1/N and ATEN's; SHOT",
        (*methods.CONTROLS, methods.SHOT, *methods.PLUGGED),
        by_target("table3"),
    ),
    "table4": Experiment(
        "ablations of Bi-ATEN",
        methods.ABLATIONS,
        by_target("table4", sources=False),
        targets={"domainnet": ("clipart", "infograph", "sketch")},
    ),
    "end_to_end": Experiment(
        "DECISION + ATEN with trained backbones; needs data.images and data.models",
        methods.END_TO_END,
        by_target(),
        seeds=1,
    ),
    "fig7": Experiment(
        "lambda x gamma",
        methods.SWEEP,
        sweep_tables,
        seeds=1,
        targets={"domainnet": ("clipart", "infograph")},
    ),
    "convergence": Experiment(
        "accuracy by epoch",
        methods.CONTROLS[1:],
        convergence_tables,
        targets={"domainnet": ("clipart", "infograph")},
    ),
}
