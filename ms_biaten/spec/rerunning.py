"""The command `rerun`: a finished run once more from what it recorded; are its numbers there?"""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ms_biaten.spec import console, provenance
from ms_biaten.spec.comparing import add_tolerance, checked, judge, table_of
from ms_biaten.spec.comparison import compare
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.history import History, read_history
from ms_biaten.spec.run import RunFolder, check_free
from ms_biaten.spec.stopping import code_of
from ms_biaten.spec.target import Target, open_target
from ms_biaten.spec.training import train

# Frameworks, or one process and several, add the same numbers in another order.
OTHER_ORDER = 1e-4


def add_to(table: Any) -> None:
    parser = table.add_parser("rerun", help="repeat a finished run, and compare the numbers")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--output", type=Path, help="folder of the new run (default: RUN-rerun)")
    parser.add_argument("--device", help="CPU, GPU or Ascend (default: the run's)")
    add_tolerance(parser, f"0, or {OTHER_ORDER:g} for a run of other workers or framework")
    parser.set_defaults(command=rerun_command)


def rerun_command(options: argparse.Namespace, backend: str, program: str) -> None:
    tolerance = checked(options.tolerance)
    history = read_history(options.run)
    if history.start is None or history.final is None:
        raise UserError(
            f"{options.run}: not finished; `{program} train --resume {options.run}` goes on with it"
        )
    place = options.output or options.run.with_name(f"{options.run.resolve().name}-rerun")
    check_free(place)
    run = replace(history.config.run, output=str(place))
    config = replace(history.config, run=replace(run, device=options.device or run.device))
    target = open_target(config)
    check_data(history, target)

    framework = importlib.import_module(backend)
    framework.prepare(config)
    backbones = target.backbones(config, framework)
    with RunFolder.create(config) as folder:
        try:
            train(config, target, framework, folder, backbones=backbones)
        except KeyboardInterrupt as stop:
            console.say(
                f"stopped; go on with: {program} train --resume {place}, then {program} compare "
                f"{options.run} {place}"
            )
            sys.exit(code_of(stop))  # not the general message: the same command finds it taken

    if tolerance is None:
        tolerance = OTHER_ORDER if (why := other_order(history, framework)) else 0.0
        if why:
            console.say(f"compared within {tolerance:g}: {why}")
    found = compare(options.run, place)
    console.say("")
    console.say(table_of(found, tolerance))
    judge(found, tolerance)


def check_data(history: History, target: Target) -> None:
    """The very bank and heads of the run, or nothing is computed."""
    recorded = (history.start or {}).get("provenance", {}).get("data")
    if recorded is None:
        console.say(f"{history.path} recorded no digests of its data: they are not checked")
        return
    changed = provenance.changed(recorded, provenance.data_of(history.config, target))
    if changed:
        raise UserError(
            f"{history.path}: not what it was run with: {', '.join(changed)}; restore them, or "
            f"train anew with --config {history.path / 'config.yaml'}"
        )


def other_order(history: History, framework: Any) -> str:
    """Why equal bits cannot be asked for; empty where they can."""
    start = history.start or {}
    then, now = start.get("versions", {}).get("framework"), framework.versions()["framework"]
    if then != now:
        return f"the run was {then}'s, this one is {now}'s"
    workers = start.get("provenance", {}).get("machine", {}).get("workers", 1)
    return f"the run had {workers} workers, this one has 1" if workers > 1 else ""
