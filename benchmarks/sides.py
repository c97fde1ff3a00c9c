"""What one side does in its process: `python -m benchmarks.sides SIDE TASK SIZE METHOD SAMPLES`.

Sides: `mindspore` leaves the number of threads to MindSpore; `mindspore, repeatable` is the default
of a run, one thread in all kernels but products; `torch_ref` is the mirror; `authors` the structure
of the released code.
"""

import contextlib
import importlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import gemms
from benchmarks.measuring import peak_memory_mb
from benchmarks.problems import Problem

SIDES = {
    "mindspore": ("ms_biaten", 0),
    "mindspore, repeatable": ("ms_biaten", 1),
    "torch_ref": ("torch_ref", 0),
    "authors": ("torch_ref", 0),
}
MULTIPLIED = {"ms_biaten": gemms.in_mindspore, "torch_ref": gemms.in_torch}
STEPS, WARM_UP = 30, 10


def step(side, problem, samples):
    """Steps with learned alpha on cached features; the first includes the compilation."""
    started = time.perf_counter()
    engine = made(side, problem)
    ready = time.perf_counter()
    bank, size = problem.bank(samples), problem.config.train.batch_size
    memory = surveyed(side, engine, bank, problem.config.run.eval_batch)
    before = time.perf_counter()
    taken = []
    with undisturbed(engine):
        for index in range(STEPS):
            rows = np.arange(index * size, (index + 1) * size) % samples
            begun = time.perf_counter()
            train(side, engine, bank, rows, memory)
            taken.append(time.perf_counter() - begun)
    seconds = statistics.median(taken[WARM_UP:])
    memory_mb = peak_memory_mb()
    products = gemms.step_products(problem.sizes, size, problem.config.method.name)
    ideal = gemms.seconds_of(products, MULTIPLIED[SIDES[side][0]])
    flop = 2e-9 * sum(product.multiply_adds for product in products)
    return {
        "step_ms": round(1e3 * seconds, 2),
        "samples_per_second": round(size / seconds, 1),
        "gemm_ms": round(1e3 * ideal, 2),
        "gemm_share": round(ideal / seconds, 3),
        "gemm_gflops": round(flop / ideal, 1),
        "gflop": round(flop, 3),
        "import_s": round(ready - started, 2),
        "first_step_s": round(taken[0], 2),
        "to_first_step_s": round(ready - started + before - ready + taken[0], 2),
        "memory_mb": memory_mb,
    }


def labels(side, problem, samples):
    """Eqs. (12)-(14) for `samples` samples, features and centroids given."""
    sizes = problem.sizes
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((samples, sizes.sources, sizes.width), np.float32)
    beta = rng.dirichlet(np.ones(sizes.sources), samples).astype(np.float32)
    mu = rng.standard_normal((sizes.sources, sizes.classes, sizes.width), np.float32)
    if side == "authors":
        import torch

        from benchmarks.authors import labels_by_sample

        tensors = [torch.from_numpy(x) for x in (phi, beta, mu)]
        call = lambda: labels_by_sample(*tensors).numpy()  # noqa: E731
    else:
        engine = made(side, problem)
        engine.set_clusters(engine.tensor(mu), engine.tensor(np.ones(mu.shape[:2], np.float32)))
        size = importlib.import_module(f"{SIDES[side][0]}.adapt").LABELLED

        def call():
            parts = []
            for start in range(0, samples, size):
                near = (engine.tensor(x[start : start + size]) for x in (phi, beta))
                parts.append(engine.label(*near).numpy())
            return np.concatenate(parts)

    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        found = call()
        taken.append(time.perf_counter() - begun)
    seconds = statistics.median(taken[1:])
    return {
        "seconds": round(seconds, 4),
        "samples_per_second": round(samples / seconds, 1),
        "checksum": int(found.sum()),
    }


def evaluate(side, problem, samples):
    """One pass over the target: predictions, and the centroids of the next labels."""
    engine = made(side, problem)
    bank, size = problem.bank(samples), problem.config.run.eval_batch
    surveyed(side, engine, bank, size)
    with undisturbed(engine):
        begun = time.perf_counter()
        surveyed(side, engine, bank, size)
        seconds = time.perf_counter() - begun
    return {"seconds": round(seconds, 3), "samples_per_second": round(samples / seconds, 1)}


def epoch(side, problem, samples):
    """A whole epoch from a float16 bank on disk: labels, steps, evaluation."""
    from ms_biaten.spec.bank import load_bank, save_bank
    from ms_biaten.spec.placement import placed

    with tempfile.TemporaryDirectory() as place:
        save_bank(Path(place) / "bank", problem.bank(samples, np.float16))
        engine = made(side, problem)
        bank = placed(load_bank(Path(place) / "bank"), "disk")  # as a run has it by default
        size = problem.config.run.eval_batch
        run = authors_epoch if side == "authors" else our_epoch
        surveyed(side, engine, bank, size)
        with undisturbed(engine):
            run(engine, problem, bank, 0, Path(place))  # compiles, fills the file cache
            begun = time.perf_counter()
            run(engine, problem, bank, 2, Path(place))
            seconds = time.perf_counter() - begun
    memory = peak_memory_mb()
    batch, multiplied = problem.config.train.batch_size, MULTIPLIED[SIDES[side][0]]
    ideal = gemms.epoch_seconds(problem.sizes, samples, batch, size, multiplied)
    return {
        "seconds": round(seconds, 2),
        "samples_per_second": round(samples / seconds, 1),
        "gemm_seconds": round(ideal, 2),
        "gemm_share": round(ideal / seconds, 3),
        "memory_mb": memory,
    }


def our_epoch(engine, problem, bank, number, place):
    from ms_biaten.spec.algorithm import ALONE, train_epoch
    from ms_biaten.spec.run import RunFolder

    train_epoch(engine, bank, RunFolder(place / "run", problem.config), number, ALONE)


def authors_epoch(engine, problem, bank, number, place):
    import torch

    from ms_biaten.spec.schedules import epoch_batches

    train_settings = problem.config.train
    features = torch.from_numpy(np.asarray(bank.features, np.float32))  # all of it, in memory
    for rows in epoch_batches(0, number, len(bank), train_settings.batch_size):
        engine.step(features[rows].numpy(), torch.from_numpy(rows), train_settings.lr, True)
    engine.survey(chunk.numpy() for chunk in features.split(problem.config.run.eval_batch))


def made(side, problem):
    """An engine with the problem's weights."""
    package, threads = SIDES[side]
    problem = problem.with_run(cpu_threads=threads)
    framework = importlib.import_module(f"{package}.backend")
    framework.prepare(problem.config)
    if side == "authors":
        from benchmarks.authors import AuthorsStep

        engine = AuthorsStep(problem.config, problem.sizes)
        engine.load(problem.arrays())
        return engine
    return framework.make_engine(problem.config, problem.sizes, problem.arrays())


def undisturbed(engine):
    """As a run makes its epochs; the authors' structure has no such thing."""
    return getattr(engine, "undisturbed", contextlib.nullcontext)()


def surveyed(side, engine, bank, size):
    """The pass before an epoch; what the steps need to know their labels."""
    if side == "authors":
        engine.survey(bank.chunks(size))
        return None
    from ms_biaten.spec.algorithm import take_survey

    take_survey(engine, bank, size).measures(bank.labels)
    return engine.relabel(bank, size, 0)


def train(side, engine, bank, rows, memory):
    if side == "authors":
        import torch

        engine.step(bank.rows(rows), torch.from_numpy(rows), 0.02, True)
    else:
        engine.step(bank.rows(rows), memory[rows], 0.02, True)


TASKS = {"step": step, "labels": labels, "evaluate": evaluate, "epoch": epoch}


def main(side, task, size, method, samples):
    print(json.dumps(TASKS[task](side, Problem.of(size, method), int(samples))))


if __name__ == "__main__":
    main(*sys.argv[1:])
