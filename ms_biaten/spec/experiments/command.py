"""The command `experiment`: a grid -> what its record lacks is run -> tables."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path

from ms_biaten.spec import console
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.experiments.catalogue import EXPERIMENTS
from ms_biaten.spec.experiments.grid import cells
from ms_biaten.spec.experiments.identity import NOT_IN_KEY, key_of
from ms_biaten.spec.experiments.layout import latex_text, markdown_text
from ms_biaten.spec.experiments.record import Line, Record
from ms_biaten.spec.experiments.results import Results
from ms_biaten.spec.experiments.running import Job, run_jobs
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.locks import beside
from ms_biaten.spec.profiles import PROFILES
from ms_biaten.spec.target import open_target

# By name, so that tables of a finished record need no framework.
FRAMEWORKS = {"ms_biaten.backend": "mindspore", "torch_ref.backend": "torch"}


def add_options(parser: argparse.ArgumentParser) -> None:
    names = "; ".join(f"{name}: {e.what}" for name, e in EXPERIMENTS.items())
    parser.add_argument("name", choices=list(EXPERIMENTS), metavar="NAME", help=names)
    parser.add_argument("--config", default="emoji", help="a YAML file or a shipped one's name")
    parser.add_argument("--targets", nargs="+", metavar="DOMAIN", help="(default: all)")
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, metavar="PROFILE")
    parser.add_argument("--seeds", type=int, help="how many (default: 5; fig7: 1)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="for every cell"
    )
    parser.add_argument("--record", type=Path, help="(default: runs/experiments/<benchmark>.jsonl)")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="also write the tables here")
    parser.add_argument("--latex", type=Path, metavar="FILE.tex", help="and here, for booktabs")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the run folders in it")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (default: 1)")
    parser.add_argument("--retry-failed", action="store_true", help="run failed cells again")


def experiment_command(options: argparse.Namespace, backend: str, program: str) -> None:
    check(options)
    experiment = EXPERIMENTS[options.name]
    first = options.targets[0] if options.targets else None
    config = load_config(options.config, target=first, overrides=options.set)
    bench = benchmark(config.data.benchmark)
    targets = options.targets or experiment.targets_on(bench) or [config.target]
    profiles = options.profiles or experiment.profiles
    seeds = options.seeds or experiment.seeds
    grid = cells(experiment.rows, profiles, targets, seeds)
    configs = {cell: cell.config(options.config, options.set) for cell in grid}
    keys = {cell: key_of(configs[cell], FRAMEWORKS[backend]) for cell in grid}

    record = Record(options.record or Path("runs/experiments") / f"{bench.name}.jsonl")
    say_what_is_left_aside(record, set(keys.values()))
    wanted = {key: cell for cell, key in keys.items()}
    given = tuple(text for text in options.set if text.partition("=")[0].strip() not in NOT_IN_KEY)

    def lacking(known: dict[str, Line]) -> list[Job]:
        return [
            Job(cell, configs[cell], key, backend, given, options.keep)
            for key, cell in wanted.items()
            if key not in known or (options.retry_failed and "failed" in known[key])
        ]

    jobs = lacking(record.by_key())
    if jobs:
        check_data(jobs)
        with beside(record.path):
            record = Record(record.path)  # whoever had it until now may have added to it
            jobs = lacking(record.by_key())
            run_jobs(jobs, record, len(wanted) - len(jobs), options.jobs)

    known = record.by_key()
    lines = {cell: known[key] for cell, key in keys.items()}
    tables = experiment.tables(Results(bench, experiment.rows, profiles, targets, seeds, lines))
    console.say(markdown_text(tables))
    for path, text in ((options.output, markdown_text), (options.latex, latex_text)):
        if path:
            with write_atomically(path) as file:
                file.write(text(tables).encode())
    failed = sum("failed" in known[key] for key in wanted)
    if failed:
        raise RunError(f"{failed} of {len(wanted)} cells failed; --retry-failed runs them again")


def check(options: argparse.Namespace) -> None:
    for name in ("seeds", "jobs"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise UserError(f"--{name}: expected at least 1, found {getattr(options, name)}")
    for name in ("output", "latex"):  # now, not after hours of runs
        path = getattr(options, name)
        if path and not path.parent.is_dir():
            raise UserError(f"--{name} {path}: there is no folder {path.parent}; make it first")


def say_what_is_left_aside(record: Record, wanted: set[str]) -> None:
    others = sum(line.get("key") not in wanted for line in record.lines)
    if others:
        count = f"{others} lines" if others > 1 else "1 line"
        verb = "are" if others > 1 else "is"
        console.say(f"{record.path}: {count} of other settings {verb} left aside")
    if record.torn:
        console.say(f"{record.path}: its last line was cut off and is dropped")


def check_data(jobs: Sequence[Job]) -> None:
    """The device and every bank that will be needed, before the first run."""
    importlib.import_module(jobs[0].backend).prepare(jobs[0].config)
    for job in {(job.cell.target, job.config.profile.view): job for job in jobs}.values():
        if open_target(job.config).bank.labels is None:
            raise UserError(
                f"target '{job.cell.target}' has no labels, and tables compare accuracies; "
                "use `train`, or a bank with labels"
            )
