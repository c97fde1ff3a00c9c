"""`make bench`: steps, pseudo labels, evaluation, epochs, start and memory, side by side.

    python -m benchmarks                      all of it, about 25 minutes on 2 cores
    python -m benchmarks --only step epoch --sizes domainnet --rounds 5

Needs a quiet machine. Prints tables; writes benchmarks/results/adaptation.json and .png.
"""

import argparse
from pathlib import Path

from benchmarks import plots
from benchmarks.cores_apart import round_trip_ns
from benchmarks.measuring import ROOT, in_turns, medians, run_child, write
from benchmarks.problems import SIZES
from benchmarks.sides import SIDES, TASKS

SAMPLES = {"step": 512, "labels": 4096, "evaluate": 4096, "epoch": 4096}


def plan(options):
    """(task, size, method) of everything that is measured."""
    for task in options.only:
        for size in options.sizes if task == "step" else options.sizes[:1]:
            for method in ("bi_aten", "aten") if task == "step" else ("bi_aten",):
                yield task, size, method


def measure(task, size, method, rounds):
    """{side: what each round gave}; the released code has no ATEN."""
    sides = [side for side in SIDES if method == "bi_aten" or side != "authors"]

    def once(side):
        row = run_child("benchmarks.sides", side, task, size, method, SAMPLES[task])
        return {**row, "cores_ns": round_trip_ns()}

    return in_turns(rounds, sides, once)


def table(task, size, method, rows):
    print(f"\n{task}, {size}, {method} ({SAMPLES[task]} samples)")
    shown = [key for key in COLUMNS[task] if key in next(iter(rows.values()))]
    base = rows.get("authors")
    print("| side | " + " | ".join([*shown, *(["times the authors'"] if base else [])]) + " |")
    print("|---" * (len(shown) + 1 + bool(base)) + "|")
    for side, row in rows.items():
        cells = [f"{row[key]:g}" for key in shown]
        if base:
            cells.append(f"{row['samples_per_second'] / base['samples_per_second']:.2f}")
        print(f"| {side} | " + " | ".join(cells) + " |")


def in_rounds(found, keys):
    """What every round gave, of the numbers that tell how far to trust a median."""
    return {
        f"{key}_of_each_round": {side: [row[key] for row in each] for side, each in found.items()}
        for key in keys
    }


KEPT = ("samples_per_second", "cores_ns")
COLUMNS = {
    "step": (
        "samples_per_second",
        "step_ms",
        "gemm_ms",
        "gemm_share",
        "to_first_step_s",
        "memory_mb",
    ),
    "labels": ("samples_per_second", "seconds"),
    "evaluate": ("samples_per_second", "seconds"),
    "epoch": ("samples_per_second", "seconds", "gemm_seconds", "gemm_share", "memory_mb"),
}


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/adaptation.json")
    options = parser.parse_args()
    results = []
    for task, size, method in plan(options):
        found = measure(task, size, method, options.rounds)
        rows = {side: medians(each) for side, each in found.items()}
        table(task, size, method, rows)
        about = {"task": task, "size": size, "method": method}
        about |= {"samples": SAMPLES[task], "rounds": options.rounds}
        results.append({**about, "medians": rows, **in_rounds(found, KEPT)})
        write(options.output, {"results": results})
    plots.adaptation(results, options.output.with_suffix(".png"))
    print(f"\nwritten: {options.output}, {options.output.with_suffix('.png')}")


if __name__ == "__main__":
    main()
