"""`make parity`: the worst error of every case, as a table and as parity_report.json."""

import argparse
import json
import os
import platform
import sys
from pathlib import Path

from tqdm import tqdm

from ms_biaten.spec.profiles import PROFILES
from parity_tests.cases import CASES, TOLERANCE
from parity_tests.harness import MODES, check, ms, torch
from parity_tests.trajectory import (
    METHODS,
    differences,
    follow,
    trajectory_config,
    worst_by_kind,
)


def function_rows():
    for case in tqdm(CASES, "functions", disable=None):
        for dtype in TOLERANCE:
            for mode in MODES:
                errors = check(case, mode, dtype)
                yield {
                    "case": case.name,
                    "equation": case.equation,
                    "dtype": dtype,
                    "mode": mode,
                    "tolerance": case.tolerance[dtype],
                    **errors,
                }


def trajectory_rows():
    for profile in PROFILES:
        theirs = follow("torch", trajectory_config(profile))
        for mode in MODES:
            config = trajectory_config(profile, (f"run.mode={mode}",))
            kinds = worst_by_kind(differences(follow("mindspore", config), theirs))
            yield {
                "case": f"trajectory-{profile}",
                "equation": "Algorithm 1, 52 steps",
                "dtype": "float32",
                "mode": mode,
                "tolerance": TOLERANCE["float32"],
                "torch": max(kinds.values()),
                "by_quantity": kinds,
            }


def method_rows():
    for name, weights in METHODS:
        overrides = (f"method={name}", f"method.weights={weights}", "train.epochs=2")
        theirs = follow("torch", trajectory_config("paper", overrides))
        for mode in MODES:
            config = trajectory_config("paper", (*overrides, f"run.mode={mode}"))
            kinds = worst_by_kind(differences(follow("mindspore", config), theirs))
            yield {
                "case": f"trajectory-{name}-{weights}",
                "equation": "26 steps",
                "dtype": "float32",
                "mode": mode,
                "tolerance": TOLERANCE["float32"],
                "torch": max(kinds.values()),
                "by_quantity": kinds,
            }


COLUMNS = ("torch", "oracle", "torch_grad", "oracle_grad")


def print_rows(rows):
    heads = "".join(f"{column:>12}" for column in COLUMNS)
    print(f"{'case':40} {'equation':22} {'dtype':8} {'mode':9}{heads}")
    for row in rows:
        numbers = "".join(f"{row[c]:12.1e}" if c in row else f"{'':12}" for c in COLUMNS)
        name = f"{row['case']:40} {row['equation']:22} {row['dtype']:8} {row['mode']:9}"
        print(name + numbers + ("" if passed(row) else f"  ABOVE {row['tolerance']}"))


def passed(row):
    return max(row.get(column, 0.0) for column in COLUMNS) <= row["tolerance"]


def markdown(rows, machine):
    """One line per case, float32, the worse of the two modes."""
    text = [
        "# Parity of MindSpore and PyTorch",
        "",
        "Written by `make parity ARGS='--markdown docs/parity.md'`. Largest differences in",
        "float32, the worse of pynative and graph mode: of MindSpore's outputs from PyTorch's and",
        "from a float64 NumPy oracle, then of its gradients under random cotangents. Relative to",
        "the largest value where that exceeds 1. The bound is 1e-5.",
        "",
        f"Machine: {machine}",
        "",
        "| case | equation | torch | oracle | gradient, torch | gradient, oracle |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["case"] for row in rows):
        same = [row for row in rows if row["case"] == name and row["dtype"] == "float32"]
        cells = [f"{max(row[c] for row in same):.1e}" if c in same[0] else "" for c in COLUMNS]
        text.append(f"| `{name}` | {same[0]['equation']} | {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="python -m parity_tests", description=__doc__)
    parser.add_argument("--report", default="parity_report.json", help="where the JSON goes")
    parser.add_argument("--markdown", help="also write a table to this file")
    options = parser.parse_args()
    rows = [*function_rows(), *trajectory_rows(), *method_rows()]
    print_rows(rows)
    machine = (
        f"{platform.machine()} CPU, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"mindspore {ms.__version__}, torch {torch.__version__}"
    )
    Path(options.report).write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    if options.markdown:
        Path(options.markdown).write_text(markdown(rows, machine))
    failed = sum(not passed(row) for row in rows)
    print(f"{len(rows)} rows, {failed} above their tolerance; written to {options.report}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
