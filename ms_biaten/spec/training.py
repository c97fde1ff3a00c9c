"""The command `train`: config -> target -> engine -> run folder -> table."""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ms_biaten
from ms_biaten.spec import algorithm, console
from ms_biaten.spec.bank import Bank
from ms_biaten.spec.config import Config, MethodName
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.methods import initial_arrays
from ms_biaten.spec.report.command import write_report
from ms_biaten.spec.run import RunFolder
from ms_biaten.spec.target import Target, open_target
from ms_biaten.spec.weights import stack_sources

COMPARED: tuple[MethodName, ...] = ("bn_only", "uniform", "aten", "bi_aten")


def config_of(options: argparse.Namespace) -> Config:
    places = {f"run.{key}": getattr(options, key, None) for key in ("device", "seed", "output")}
    return load_config(
        options.config or "emoji",
        target=options.target,
        profile=options.profile,
        overrides=options.set,
        settings={"method.name": options.method, **places},
    )


def train_command(options: argparse.Namespace, backend: str, program: str) -> None:
    folder = open_for_resume(options) if options.resume is not None else None
    config = folder.config if folder else config_of(options)
    target = open_target(config)
    framework = importlib.import_module(backend)
    framework.prepare(config)

    runs = {config.method.name: train(config, target, framework, folder, program)}
    place = runs[config.method.name].path
    for method in COMPARED if options.controls else ():
        if method != config.method.name:
            output = str(place / "controls" / method)
            control = replace(
                config,
                method=replace(config.method, name=method),
                run=replace(config.run, output=output),
            )
            started = (place / "controls" / method / "config.yaml").is_file()
            earlier = RunFolder.reopen(Path(output), control) if started else None
            runs[method] = train(control, target, framework, earlier, program, quiet=True)
    console.say("")
    console.say(console.final_table({m: run.lines for m, run in runs.items()}, target.bank.domains))
    console.say(f"run folder: {place}  (results.jsonl, predictions.csv, checkpoints/)")
    if options.report:
        console.say(f"report: {report_of(place, program)}")


def report_of(place: Path, program: str) -> str:
    """The page's path; a run that ended well does not fail because its page cannot be drawn."""
    try:
        return str(write_report(place, program))
    except Exception as error:
        return f"not written ({type(error).__name__}: {error})"


def train(
    config: Config,
    target: Target,
    framework: Any,
    folder: RunFolder | None,
    program: str,
    quiet: bool = False,
) -> RunFolder:
    """One run to its end, in a new folder or in the one to go on with."""
    arrays = {**stack_sources(target.heads), **initial_arrays(config, target.sizes)}
    engine = framework.make_engine(config, target.sizes, arrays)
    folder = folder or RunFolder.create(config)
    about = {
        "versions": {
            "ms_biaten": ms_biaten.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            **framework.versions(),
        },
        "trained_parameters": engine.parameter_count(),
    }
    if quiet:
        console.say(f"control: {console.title_of(config)}")
    else:
        introduce(config, target.bank, about)
    if folder.lines and folder.lines[-1]["kind"] == "final":
        console.say("this run is finished already")
        return folder
    try:
        say = (lambda text: None) if quiet else console.say
        algorithm.run(engine, target.bank, folder, about, say)
    except KeyboardInterrupt:
        console.say(f"stopped; go on with: {program} train --resume {folder.path}")
        sys.exit(130)  # not the general message: the same command would start a new run
    return folder


def open_for_resume(options: argparse.Namespace) -> RunFolder:
    place = options.resume or options.output
    if not place:
        raise UserError("--resume: name the run, --resume RUN, or pass its --output")
    given = (options.config, options.target, options.method, options.profile, options.seed)
    config = None
    if options.set or options.device or any(value is not None for value in given):
        config = config_of(options)
    return RunFolder.reopen(Path(place), config)


def introduce(config: Config, bank: Bank, about: dict[str, Any]) -> None:
    versions = about["versions"]
    name = versions["framework"]
    console.say(
        f"{console.title_of(config)} ({config.profile.name} profile) on "
        f"{config.data.benchmark}: {', '.join(bank.domains)} -> {config.target}; "
        f"{len(bank)} samples, {len(bank.classes)} classes, "
        f"{about['trained_parameters']:,} trained parameters; "
        f"{name} {versions[name]} on {config.run.device}"
    )
