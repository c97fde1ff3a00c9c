"""The committed records of experiments, without the banks that they were made with."""

from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.experiments.catalogue import EXPERIMENTS
from ms_biaten.spec.experiments.grid import cells
from ms_biaten.spec.experiments.record import Record, by_settings
from ms_biaten.spec.experiments.results import Results


def recorded(name, path, benchmark_name, targets=None, profiles=None, seeds=None):
    """The results of an experiment; a cell that the record lacks is an error."""
    experiment, bench = EXPERIMENTS[name], benchmark(benchmark_name)
    targets = targets or experiment.targets_on(bench)
    profiles, seeds = profiles or experiment.profiles, seeds or experiment.seeds
    grid = cells(experiment.rows, profiles, targets, seeds)
    lines = by_settings(grid, Record(path).lines)
    missing = [str(cell) for cell in grid if cell not in lines]
    if missing:
        raise LookupError(f"{path} lacks {len(missing)} cells of {name}: {missing[0]}, ...")
    return Results(bench, experiment.rows, profiles, targets, seeds, lines)


def recorded_tables(name, path, benchmark_name, **grid):
    return EXPERIMENTS[name].tables(recorded(name, path, benchmark_name, **grid))
