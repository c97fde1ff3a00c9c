"""Where a step's time goes, kernel by kernel: MindSpore's own profiler, DomainNet's size.

    python -m benchmarks.profile_step

Prints milliseconds per step of each kind of kernel, the largest first, and what is between kernels,
for Bi-ATEN and for ATEN, each in a process of its own.
"""

import csv
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import gemms
from benchmarks.measuring import ROOT, run_child, write
from benchmarks.problems import Problem
from benchmarks.sides import made, surveyed, train

SIDE, STEPS = "mindspore", 20
METHODS = ("bi_aten", "aten")


def main():
    found = {method: run_child("benchmarks.profile_step", method) for method in METHODS}
    write(ROOT / "benchmarks/results/profile.json", found)
    print(json.dumps(found, indent=1))


def profiled(method):
    problem = Problem.of("domainnet", method)
    engine = made(SIDE, problem)
    import mindspore as ms
    from mindspore.profiler import ProfilerActivity, profile

    bank, size = problem.bank(512), problem.config.train.batch_size
    memory = surveyed(SIDE, engine, bank, 512)

    def step(index):
        begun = time.perf_counter()
        rows = np.arange(index * size, (index + 1) * size) % len(bank)
        train(SIDE, engine, bank, rows, memory)
        return time.perf_counter() - begun

    wall = statistics.median([step(index) for index in range(STEPS)][STEPS // 2 :])
    products = gemms.step_products(problem.sizes, size, method)
    ideal = gemms.seconds_of(products, gemms.in_mindspore)
    with tempfile.TemporaryDirectory() as place:
        handler = ms.profiler.tensorboard_trace_handler(place)
        schedule = ms.profiler.schedule(wait=0, warmup=0, active=STEPS, repeat=1)
        recorded = profile(
            activities=[ProfilerActivity.CPU], schedule=schedule, on_trace_ready=handler
        )
        recorded.start()
        for index in range(STEPS):
            step(index)
            recorded.step()
        recorded.stop()
        (table,) = Path(place).rglob("cpu_op_type_info_0.csv")
        with table.open() as file:
            rows = list(csv.DictReader(file))
    kinds = Counter({row["op_type"]: float(row["total_compute_time"]) / STEPS for row in rows})
    rest = 1e3 * wall - sum(kinds.values())
    return {
        "step_ms": round(1e3 * wall, 1),
        "kernels": sum(int(row["type_occurrences"]) for row in rows) // STEPS,
        "products_of_the_formula_ms": round(1e3 * ideal, 1),
        "kernels_ms": {kind: round(ms_, 2) for kind, ms_ in kinds.most_common(16)},
        "other_kernels_ms": round(sum(ms_ for _, ms_ in kinds.most_common()[16:]), 2),
        "between_kernels_ms": round(rest, 1),
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(profiled(sys.argv[1])))
    else:
        main()
