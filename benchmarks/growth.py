"""How time and memory grow with the target (M), the sources (N) and the classes (C).

    python -m benchmarks.growth                  about 15 minutes on 2 cores

DomainNet's widths, `official` profile, MindSpore. For M: evaluation and pseudo labels of the whole
target, a pass each, from disk. For N and C: the step of a batch of 64. Prints the exponents of
straight lines through the logarithms; writes benchmarks/results/growth.json and .png. What is not
measured, by `--along M` say, stays in the record.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import plots
from benchmarks.cores_apart import round_trip_ns
from benchmarks.measuring import ROOT, medians, peak_memory_mb, processor, run_child, write
from benchmarks.problems import Problem
from benchmarks.scale import make_bank
from benchmarks.sides import WARM_UP, made, surveyed, train

SIDE = "mindspore"
ALONG = {
    "M": (4_000, 8_000, 16_000, 32_000, 64_000),
    "N": (2, 3, 5, 8, 12),
    "C": (50, 100, 200, 345, 700),
}
WHAT = {"M": ("evaluate_s", "labels_s"), "N": ("step_s",), "C": ("step_s",)}


def passes(samples):
    """The two passes over a target of this size; an epoch of steps is M / 64 of them."""
    from ms_biaten.spec.algorithm import take_survey
    from ms_biaten.spec.bank import load_bank
    from ms_biaten.spec.placement import placed

    problem = Problem.of("domainnet", "bi_aten", {"run.cpu_threads": 0, "profile.view": "center"})
    with tempfile.TemporaryDirectory() as place:
        make_bank(Path(place), problem, samples)
        engine = made(SIDE, problem)
        bank, size = placed(load_bank(Path(place)), "disk"), problem.config.run.eval_batch
        engine.predict(next(bank.chunks(size)))  # compiles
        before = peak_memory_mb()
        with engine.undisturbed():
            begun = time.perf_counter()
            take_survey(engine, bank, size)
            surveyed_at = time.perf_counter()
            engine.seen = []  # a large target is not remembered between the passes
            engine.relabel(bank, size, 0)
            ended = time.perf_counter()
        return {
            "evaluate_s": round(surveyed_at - begun, 3),
            "labels_s": round(ended - surveyed_at, 3),
            "memory_mb": peak_memory_mb(),
            "grown_mb": peak_memory_mb() - before,
        }


def steps(sources, classes):
    problem = Problem.of(
        "domainnet", "bi_aten", {"run.cpu_threads": 0}, sources=sources, classes=classes
    )
    engine = made(SIDE, problem)
    bank, size = problem.bank(256), problem.config.train.batch_size
    memory = surveyed(SIDE, engine, bank, 256)
    taken = []
    with engine.undisturbed():
        for index in range(3 * WARM_UP):
            rows = np.arange(index * size, (index + 1) * size) % len(bank)
            begun = time.perf_counter()
            train(SIDE, engine, bank, rows, memory)
            taken.append(time.perf_counter() - begun)
    seconds = statistics.median(taken[WARM_UP:])
    return {"step_s": round(seconds, 5), "memory_mb": peak_memory_mb()}


CHILD = {
    "M": passes,
    "N": lambda sources: steps(sources, 345),
    "C": lambda classes: steps(5, classes),
}


def exponent(sizes, values):
    """The slope of log(value) over log(size), over the upper three sizes: where it is heading."""
    slope, _ = np.polyfit(np.log(sizes[-3:]), np.log(values[-3:]), 1)
    return round(float(slope), 2)


def main():
    parser = argparse.ArgumentParser("python -m benchmarks.growth")
    parser.add_argument("--along", nargs="+", choices=ALONG, default=list(ALONG))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/growth.json")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(CHILD[options.along[0]](options.child)))
        return
    known = options.output.exists() and json.loads(options.output.read_text())
    results = known["results"] if known else {}
    for along in options.along:
        rows = {size: [] for size in ALONG[along]}
        for _ in range(options.rounds):
            for size, made_rows in rows.items():
                row = run_child("benchmarks.growth", "--along", along, "--child", size)
                made_rows.append({**row, "cores_ns": round_trip_ns()})
                print(along, size, made_rows[-1], file=sys.stderr)
        found = {size: medians(part) for size, part in rows.items()}
        exponents = {
            key: exponent(list(found), [row[key] for row in found.values()])
            for key in (*WHAT[along], "memory_mb")
        }
        about = {"processor": processor(), "rounds": options.rounds}
        results[along] = {**about, "medians": found, "exponents": exponents}
        print(f"{along}: " + ", ".join(f"{key} ~ {along}^{e}" for key, e in exponents.items()))
    results = {along: results[along] for along in ALONG if along in results}
    write(options.output, {"results": results})
    plots.growth(results, WHAT, options.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
