"""The command `train`: config -> target -> engine -> run folder -> table."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import multiprocessing
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ms_biaten
from ms_biaten.spec import algorithm, console, guard, provenance
from ms_biaten.spec.bank import Bank
from ms_biaten.spec.config import Config, MethodName
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.files import what_failed
from ms_biaten.spec.guard import NotFiniteError
from ms_biaten.spec.history import check_lines, check_sources, read_lines
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.methods import initial_arrays
from ms_biaten.spec.placement import DeviceBank
from ms_biaten.spec.report.command import write_report
from ms_biaten.spec.run import RunFolder, check_free, open_run
from ms_biaten.spec.stopping import code_of, obey_parent, stop_children
from ms_biaten.spec.target import Target, open_target
from ms_biaten.spec.weights import stack_sources
from ms_biaten.spec.workers import Workers, asked, check_parts, meet

COMPARED: tuple[MethodName, ...] = ("bn_only", "uniform", "aten", "bi_aten")


def config_of(options: argparse.Namespace) -> Config:
    given = ("device", "precision", "seed", "output")
    places = {f"run.{key}": getattr(options, key, None) for key in given}
    return load_config(
        options.config or "emoji",
        target=options.target,
        profile=options.profile,
        overrides=options.set,
        settings={"method.name": options.method, **places},
    )


def train_command(options: argparse.Namespace, backend: str, program: str) -> None:
    with contextlib.ExitStack() as held:
        folder = open_for_resume(options) if options.resume is not None else None
        config = folder.config if folder else config_of(options)
        if folder and asked() == 1:
            held.enter_context(folder)  # at once: who comes second need not wait for an answer
        if not folder and config.run.output:
            check_free(Path(config.run.output))  # before anything takes time
        if asked() > 1:
            check_shared(config, options)  # before the workers meet: no one waits for another
        target = open_target(config)
        if asked() > 1:
            check_parts(len(target.bank), config.train.batch_size)
        framework = importlib.import_module(backend)
        framework.prepare(config)
        workers = meet(framework, program)
        backbones = target.backbones(config, framework)  # a wrong folder leaves no run behind

        folder = held.enter_context(open_run(folder, config, workers))
        go_on = f"{program} train --resume {folder.path}{' --controls' * options.controls}"
        workers.begin(go_on)
        try:
            train_all(options, backend, program, target, framework, folder, backbones, workers)
        except KeyboardInterrupt as stop:
            if workers.main:
                console.say(f"stopped; go on with: {go_on}")
            stop_children()
            sys.exit(code_of(stop))  # not the general message: the same command is a new run
        except OSError as error:  # a full disk, a folder that went away
            raise RunError(f"{what_failed(error)}; go on with: {go_on}") from None
        workers.leave()


def train_all(
    options: argparse.Namespace,
    backend: str,
    program: str,
    target: Target,
    framework: Any,
    folder: RunFolder,
    backbones: list[Any] | None,
    workers: Workers,
) -> None:
    """The run itself, its controls, and the table of all."""
    config, place = folder.config, folder.path
    controls = controls_of(config, place) if options.controls else {}
    beside = start_beside(controls, backend) if config.run.device == "CPU" else None
    train(config, target, framework, folder, not workers.main, backbones, workers)
    if controls:
        console.say(f"controls: {', '.join(map(console.title_of, controls.values()))}")
    if beside:
        beside.join()
    else:
        train_controls(controls, backend)
    runs: dict[str, list[dict[str, Any]]] = {config.method.name: folder.lines}
    for method in controls:
        results = place / "controls" / method / "results.jsonl"
        runs[method] = read_lines(results)
        check_lines(runs[method], results)
        if not runs[method] or runs[method][-1]["kind"] != "final":
            raise RunError(
                f"control {method} did not finish; go on with: "
                f"{program} train --resume {place} --controls"
            )
    if workers.main:
        conclude(folder, runs, target.bank.domains, program, options.report)


def conclude(
    folder: RunFolder,
    runs: dict[str, list[dict[str, Any]]],
    domains: tuple[str, ...],
    program: str,
    report: bool,
) -> None:
    """The table of all runs, and where everything is."""
    console.say("")
    console.say(console.final_table(runs, domains))
    console.say(f"run folder: {folder.path}  (results.jsonl, predictions.csv, checkpoints/)")
    if report:
        console.say(f"report: {report_of(folder.path, program)}")


def check_shared(config: Config, options: argparse.Namespace) -> None:
    """What several workers do not do."""
    alone = "; run it in one process, without msrun"
    if config.train.trainable == "backbone":
        raise UserError(f"train.trainable: several workers train no backbones{alone}")
    if options.controls:
        raise UserError(f"--controls: not with several workers{alone}, or each method by itself")
    if options.resume is None and not config.run.output:
        raise UserError("--output: several workers must be told their folder")


def controls_of(config: Config, place: Path) -> dict[MethodName, Config]:
    """The other methods of the table, in folders below the run's."""
    return {
        method: replace(
            config,
            method=replace(config.method, name=method),
            train=replace(config.train, trainable="bottleneck"),  # Eq. (17): on features
            run=replace(config.run, output=str(place / "controls" / method)),
        )
        for method in COMPARED
        if method != config.method.name
    }


def start_beside(controls: dict[MethodName, Config], backend: str) -> Any:
    """The controls in a process of their own: on a CPU, a run keeps one core busy."""
    if not controls:
        return None
    # Spawned, not forked: neither framework survives a fork after its first kernel. A daemon: it
    # does not outlive this process.
    context = multiprocessing.get_context("spawn")
    beside = context.Process(target=train_beside, args=(controls, backend), daemon=True)
    beside.start()
    return beside


def train_beside(controls: dict[MethodName, Config], backend: str) -> None:
    """A failure is a line here; that a control is not finished, the run itself says."""
    obey_parent()
    try:
        train_controls(controls, backend)
    except KeyboardInterrupt as stop:
        sys.exit(code_of(stop))  # the run says how to go on
    except OSError as error:
        print(f"control: {what_failed(error)}", file=sys.stderr)
    except (RunError, UserError) as error:
        print(f"control: {error}", file=sys.stderr)


def train_controls(controls: dict[MethodName, Config], backend: str) -> None:
    for config in controls.values():
        framework = importlib.import_module(backend)
        framework.prepare(config)
        # Its progress bar would write over the run's own.
        with RunFolder.begun_or_new(config) as folder, contextlib.redirect_stderr(io.StringIO()):
            train(config, open_target(config), framework, folder, quiet=True)


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
    folder: RunFolder,
    quiet: bool = False,
    backbones: list[Any] | None = None,
    workers: Workers = algorithm.ALONE,
) -> RunFolder:
    """One run to its end, in a folder that this process holds."""
    arrays = {**stack_sources(target.heads), **initial_arrays(config, target.sizes)}
    backbones = backbones or target.backbones(config, framework)
    engine = framework.make_engine(config, target.sizes, arrays, backbones)
    if workers.main:
        target.described.save(folder.path)
    about = {
        "versions": {
            "ms_biaten": ms_biaten.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            **framework.versions(),
        },
        "trained_parameters": engine.parameter_count(),
        "provenance": provenance.about(
            config, target, {**arrays, **engine.seen_weights()}, workers.size
        ),
    }
    say = (lambda text: None) if quiet else console.say
    if not quiet:
        introduce(config, target.bank, about)
    check_sources(folder.lines, len(target.bank.domains), folder.path / "results.jsonl")
    if folder.finished():
        say("this run is finished already")
        return folder
    frozen = config.train.trainable == "bottleneck"
    on_device = frozen and config.data.placement == "device"
    bank = DeviceBank.of(target.bank, engine) if on_device else target.bank
    try:
        algorithm.run(engine, bank, folder, about, say, workers)
    except NotFiniteError as error:
        raise guard.stop(error, folder, workers) from None
    return folder


def open_for_resume(options: argparse.Namespace) -> RunFolder:
    place = options.resume or options.output
    if not place:
        raise UserError("--resume: name the run, --resume RUN, or pass its --output")
    given = (options.config, options.target, options.method, options.profile, options.seed)
    config = None
    places = (options.device, options.precision)
    if options.set or any(value is not None for value in (*given, *places)):
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
