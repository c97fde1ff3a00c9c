"""How soon a first run of `train.py` has made its first step, on the shipped benchmark.

    python -m benchmarks.first_step --rounds 5

Counted from before the interpreter starts: imports, config, bank, engine, the survey of the target
and its labels, compilations. Every run is a new process with a new folder, and is left after its
first step; the frameworks take turns.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import ROOT, in_turns, medians, run_child, write

SIDES = {"mindspore": "ms_biaten", "torch_ref": "torch_ref"}


def child(package, place, begun):
    """`train` by one framework, until the first step has been made."""
    seen = {}

    def note(what):
        seen.setdefault(what, round(time.time() - begun, 2))

    def stop_after_a_step(engine):
        survey, step = engine.survey, engine.step

        def noted_survey(*arguments):
            note("to_survey_s")
            return survey(*arguments)

        def first_step(*arguments):
            note("to_step_s")
            step(*arguments)
            note("first_step_s")
            print(json.dumps(seen), flush=True)
            os._exit(0)

        engine.survey, engine.step = noted_survey, first_step
        return engine

    commands = importlib.import_module(f"{package}.cli")
    note("to_commands_s")
    framework = importlib.import_module(f"{package}.backend")
    note("to_framework_s")
    make_engine = framework.make_engine
    framework.make_engine = lambda *arguments: stop_after_a_step(make_engine(*arguments))
    commands.main(["train", "--output", f"{place}/run"])
    sys.exit("the run ended without a step")


def main():
    parser = argparse.ArgumentParser("python -m benchmarks.first_step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/first_step.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        package, place, begun = options.child
        child(package, place, float(begun))

    def measure(side):
        with tempfile.TemporaryDirectory() as place:
            told = ("--child", SIDES[side], place, time.time())
            return run_child("benchmarks.first_step", *told)

    rounds = in_turns(options.rounds, SIDES, measure)
    found = {side: medians(rows) for side, rows in rounds.items()}
    write(options.output, {"medians": found, "rounds": rounds})
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
