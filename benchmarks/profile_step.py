"""Where a step's time goes, kernel by kernel: the frameworks' own profilers, DomainNet's size.

    python -m benchmarks.profile_step

Prints milliseconds per step of each kind of kernel, the largest first, and what is between kernels:
in MindSpore for Bi-ATEN and for ATEN, in PyTorch for the mirror and for the authors' structure,
each in a process of its own. Beside them stands how quickly the framework goes through memory: what
reads and writes every parameter, or every key, takes at least its bytes at that speed.

The record keeps what other processors gave, and how far apart the cores were
(`benchmarks.cores_apart`).
"""

import contextlib
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
from benchmarks.cores_apart import distance
from benchmarks.measuring import ROOT, processor, run_child, write
from benchmarks.problems import Problem
from benchmarks.sides import made, surveyed, train, undisturbed

SIDE, STEPS = "mindspore", 20
WARM_UP = 40  # MindSpore tries how many threads a kernel is quickest with, 30 times at most
SHOWN = 16  # kinds of kernels
NUMBERS = 10_000_000  # of an array that no cache holds, as many as Bi-ATEN has parameters
PASSES = 120  # in one graph: a smaller one would be run by its caller, see `gemms.in_mindspore`


def main():
    path = ROOT / "benchmarks/results/profile.json"
    known = json.loads(path.read_text())["processors"] if path.exists() else {}
    own = known[processor()] = {}
    for name in PROFILED:
        own[name] = {**run_child("benchmarks.profile_step", name), "cores": distance()}
        print(f"{name}:\n{json.dumps(own[name], indent=1)}")
    write(path, {"processors": known})


@contextlib.contextmanager
def ready(side, method, multiplied):
    """`step(index)`, and the median time of one; the time of the products alone.

    As in a run, threads are held to their cores from the first step to the last.
    """
    problem = Problem.of("domainnet", method)
    engine = made(side, problem)
    bank, size = problem.bank(512), problem.config.train.batch_size
    memory = surveyed(side, engine, bank, 512)

    def step(index):
        rows = np.arange(index * size, (index + 1) * size) % len(bank)
        begun = time.perf_counter()
        train(side, engine, bank, rows, memory)
        return time.perf_counter() - begun

    products = gemms.step_products(problem.sizes, size, method)
    ideal = gemms.seconds_of(products, multiplied)
    with undisturbed(engine):
        for index in range(WARM_UP):
            step(index)
        yield step, statistics.median(step(index) for index in range(STEPS)), ideal


def speed_of(passes):
    """GB a second of `PASSES` products of two arrays into a third, number by number."""
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        passes()
        taken.append((time.perf_counter() - begun) / PASSES)
    return round(3 * 4e-9 * NUMBERS / statistics.median(taken), 1)


def memory_in_mindspore():
    from mindspore import Tensor, ops

    from ms_biaten.runtime import Graph

    def passes(a, b):
        last = a
        for _ in range(PASSES):
            last = ops.mul(ops.depend(a, last), b)
        return last

    graph, arrays = Graph(passes), [Tensor(np.ones(NUMBERS, np.float32)) for _ in "ab"]
    return speed_of(lambda: graph(*arrays))


def memory_in_torch():
    import torch

    a, b, into = (torch.ones(NUMBERS) for _ in "abc")
    return speed_of(lambda: [torch.mul(a, b, out=into) for _ in range(PASSES)])


def in_mindspore(method):
    import mindspore as ms
    from mindspore.profiler import ProfilerActivity, profile

    prepared = ready(SIDE, method, gemms.in_mindspore)
    with tempfile.TemporaryDirectory() as place, prepared as (step, wall, ideal):
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
    count = sum(int(row["type_occurrences"]) for row in rows)
    return told(kinds, count, wall, ideal, memory_in_mindspore())


def in_torch(side):
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    with ready(side, "bi_aten", gemms.in_torch) as (step, wall, ideal):
        recorded = profile(activities=activities)
        recorded.start()
        for index in range(STEPS):
            step(index)
        recorded.stop()
    rows = recorded.key_averages()
    kinds = Counter({row.key: 1e-3 * row.self_cpu_time_total / STEPS for row in rows})
    return told(kinds, sum(row.count for row in rows), wall, ideal, memory_in_torch())


def told(kinds, kernels, wall, ideal, gb_per_second):
    return {
        "step_ms": round(1e3 * wall, 1),
        "kernels": kernels // STEPS,
        "products_of_the_formula_ms": round(1e3 * ideal, 1),
        "memory_gb_s": gb_per_second,
        "kernels_ms": {kind: round(ms_, 2) for kind, ms_ in kinds.most_common(SHOWN)},
        "other_kernels_ms": round(sum(ms_ for _, ms_ in kinds.most_common()[SHOWN:]), 2),
        "between_kernels_ms": round(1e3 * wall - sum(kinds.values()), 1),
    }


PROFILED = {
    "bi_aten": in_mindspore,
    "aten": in_mindspore,
    "torch_ref": in_torch,
    "authors": in_torch,
}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(PROFILED[sys.argv[1]](sys.argv[1])))
    else:
        main()
