"""An epoch on a target that is larger than the memory it may take.

    python -m benchmarks.scale                       quickdraw's size: 172,500 x 5 x 1024
    python -m benchmarks.scale --samples 48129 --profile paper --backend torch_ref

The bank is made on the fly (float16, in a temporary folder); the epoch runs in a process of its
own: labels, steps, evaluation, checkpoint. Memory is the peak of that process less what it held
once its framework was imported. The record keeps what other processors gave.
"""

import argparse
import importlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import ROOT, peak_memory_mb, processor, run_child, write
from benchmarks.problems import Problem, bank_of
from ms_biaten.spec.bank import load_bank, write_manifest

CHUNK = 2048


def make_bank(folder, problem, samples):
    """Clusters with noise, so that there is something to learn; written chunk by chunk."""
    sizes, rng = problem.sizes, np.random.default_rng(0)
    centers = rng.standard_normal((sizes.classes, sizes.sources, sizes.raw), np.float32)
    shape = (samples, sizes.sources, sizes.raw)
    features = np.lib.format.open_memmap(folder / "center.npy", "w+", np.float16, shape)
    for start in range(0, samples, CHUNK):
        rows = np.arange(start, min(start + CHUNK, samples))
        noise = rng.standard_normal((len(rows), *shape[1:]), np.float32)
        features[rows] = centers[rows % sizes.classes] + 2 * noise
    features.flush()
    bank = bank_of(features, sizes.classes, problem.config.target)
    write_manifest(folder, bank, ["center"], {})


def child(options):
    """The epoch; `algorithm.run` and all that it writes, as `ms-biaten train` does."""
    from ms_biaten.spec import algorithm
    from ms_biaten.spec.placement import DeviceBank, placed
    from ms_biaten.spec.run import RunFolder

    problem = problem_of(options)
    framework = importlib.import_module(f"{options.backend}.backend")
    framework.prepare(problem.config)
    before = peak_memory_mb()
    engine = framework.make_engine(problem.config, problem.sizes, problem.arrays())
    started = time.perf_counter()
    bank = placed(load_bank(options.bank), options.placement)
    if options.placement == "device":
        bank = DeviceBank.of(bank, engine)
    folder = RunFolder.create(problem.config)
    algorithm.run(engine, bank, folder, {}, lambda text: print(text, file=sys.stderr))
    epoch = folder.lines[1]
    print(
        json.dumps(
            {
                "samples": len(bank),
                "placement": options.placement,
                "imported_mb": before,
                "peak_mb": peak_memory_mb(),
                "beside_mb": peak_memory_mb() - before,
                "epoch_s": epoch["seconds"],
                "samples_per_second": round(len(bank) / epoch["seconds"], 1),
                "run_s": round(time.perf_counter() - started, 1),
            }
        )
    )


def problem_of(options):
    settings = {
        "train.epochs": 1,
        "run.cpu_threads": options.threads,
        "run.output": str(options.bank.parent / "run"),
        "profile.view": "center",
    }
    return Problem.of("domainnet", options.method, settings, profile=options.profile)


def main():
    parser = argparse.ArgumentParser("python -m benchmarks.scale")
    parser.add_argument("--samples", type=int, default=172_500)
    parser.add_argument("--backend", default="ms_biaten", choices=["ms_biaten", "torch_ref"])
    parser.add_argument("--profile", default="official", choices=["paper", "official"])
    parser.add_argument("--method", default="bi_aten")
    parser.add_argument("--placement", default="disk", choices=["disk", "host", "device"])
    parser.add_argument("--threads", type=int, default=0, help="run.cpu_threads")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/scale.json")
    parser.add_argument("--bank", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bank:
        child(options)
        return
    folder = Path(tempfile.mkdtemp(prefix="bank-"))
    try:
        options.bank = folder / "bank"
        options.bank.mkdir()
        make_bank(options.bank, problem_of(options), options.samples)
        keys = ("backend", "profile", "method", "placement", "threads", "bank")
        arguments = [part for key in keys for part in (f"--{key}", getattr(options, key))]
        found = run_child("benchmarks.scale", *arguments)
    finally:
        shutil.rmtree(folder)
    about = {key: getattr(options, key) for key in ("backend", "profile", "method")}
    row = {"processor": processor(), **about, **found}
    known = json.loads(options.output.read_text())["rows"] if options.output.exists() else []
    others = [other for other in known if other["processor"] != row["processor"]]
    write(options.output, {"rows": [*others, row]})
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
