"""Time, memory, disk and network of a run, from its sizes: the model of docs/scaling.md.

    python -m benchmarks.cost_model            coefficients, their errors, and the table

A step takes a time for its multiply-adds, one for the passes over the keys of Eq. (2), one for the
passes over the parameters, and one that is always there. The four coefficients are fitted to what
`python -m benchmarks.growth` measured along N and C; the page says how far they are off.
"""

import json
from dataclasses import dataclass

import numpy as np

from benchmarks.gemms import step_products
from benchmarks.measuring import ROOT
from ms_biaten.spec.shapes import Sizes

BATCH = 64


@dataclass(frozen=True)
class Run:
    """What is adapted: M samples, N sources, C classes, at DomainNet's widths."""

    name: str
    samples: int
    sources: int
    classes: int

    @property
    def sizes(self):
        return Sizes(self.sources, self.classes, raw=1024, width=256, heads=4, embedding=512)


RUNS = (
    Run("DomainNet, clipart", 48_129, 5, 345),
    Run("DomainNet, quickdraw", 172_500, 5, 345),
    Run("1 million images", 1_000_000, 5, 1_000),
    Run("100 million images, 50 sources", 100_000_000, 50, 1_000),
)


def parameters(sizes):
    """Trained by Bi-ATEN: bottlenecks with their normalisation, W^F, W^O, W^QF."""
    N, R, D, C = sizes.sources, sizes.raw, sizes.width, sizes.classes
    J = sizes.heads * sizes.embedding
    return N * (R * D + 3 * D) + N * (D + 1) * J + N * (C + 1) * J + (N * D + 1) * J


def multiply_adds(sizes, batch=BATCH):
    return sum(product.multiply_adds for product in step_products(sizes, batch, "bi_aten"))


def key_numbers(sizes, batch=BATCH):
    """Of the keys O W^O: one vector for every sample, source, classifier and head."""
    return batch * sizes.sources**2 * sizes.heads * sizes.embedding


def terms(sizes, batch=BATCH):
    """What the four coefficients multiply."""
    return [multiply_adds(sizes, batch), key_numbers(sizes, batch), parameters(sizes), 1.0]


def fitted(points):
    """Coefficients that are off by the least share: points are (sizes, seconds).

    One that comes out negative says nothing of its own: it is left out, the others fitted anew.
    """
    rows = np.array([np.array(terms(sizes)) / seconds for sizes, seconds in points])
    scale = rows.max(0)
    used = np.ones(rows.shape[1], bool)
    while True:
        found = np.zeros(rows.shape[1])
        found[used] = np.linalg.lstsq((rows / scale)[:, used], np.ones(len(points)), rcond=None)[0]
        if (found >= 0).all():
            return found / scale
        used[found.argmin()] = False


def step_seconds(coefficients, sizes, batch=BATCH):
    return float(np.dot(coefficients, terms(sizes, batch)))


def disk_bytes(run):
    """The bank in half precision."""
    return 2 * run.samples * run.sources * run.sizes.raw


OWN_BYTES = 265e6  # MindSpore's graphs and pools: growth.json's peaks less the import and the rest


def memory_bytes(run, remembered=False, batch=BATCH, chunk=512):
    """Beside the interpreter, with `placement: disk`.

    Parameters, momenta and gradients, six tensors of keys, the outputs of a chunk; of each sample
    its label, its weights and its predictions, and its features where they are `remembered`
    (`label_refresh: per_batch`).
    """
    sizes = run.sizes
    step = 4 * (4 * parameters(sizes) + 6 * key_numbers(sizes, batch))
    outputs = 4 * chunk * (sizes.sources**2 * sizes.classes + sizes.sources * sizes.raw)
    each = 8 + 12 * sizes.sources + 20 + 4 * sizes.sources * sizes.width * remembered
    return OWN_BYTES + step + outputs + run.samples * each


def network_bytes(sizes):
    """One worker, one step: gradients by a ring, statistics of the normalisation and the losses."""
    statistics = 2 * 2 * sizes.sources * sizes.width + (2 * sizes.sources + 1) * sizes.classes
    return 2 * 4 * (parameters(sizes) + statistics)


def growth_points(path=ROOT / "benchmarks/results/growth.json"):
    results = json.loads(path.read_text())["results"]
    along_n = [(Run("", 0, int(n), 345), row) for n, row in results["N"]["medians"].items()]
    along_c = [(Run("", 0, 5, int(c)), row) for c, row in results["C"]["medians"].items()]
    # Few classes take another form of Eq. (2), without its keys.
    kept = [(run, row) for run, row in along_n + along_c if 4 * run.classes > 512]
    return [(run.sizes, row["step_s"]) for run, row in kept]


def main():
    points = growth_points()
    coefficients = fitted(points)
    names = ("s per multiply-add", "s per number of the keys", "s per parameter", "s")
    for value, name in zip(coefficients, names, strict=True):
        print(f"{value:.3g} {name}")
    print("| N | C | measured, ms | model, ms | off by |\n|---|---|---|---|---|")
    for sizes, seconds in points:
        told = step_seconds(coefficients, sizes)
        cells = (sizes.sources, sizes.classes, f"{1e3 * seconds:.1f}", f"{1e3 * told:.1f}")
        print("| " + " | ".join(map(str, cells)) + f" | {100 * (told / seconds - 1):+.0f}% |")
    print("\n| run | steps | step, ms | epoch | bank | memory | memory, official | sent per step |")
    print("|---" * 8 + "|")
    for run in RUNS:
        steps, seconds = -(-run.samples // BATCH), step_seconds(coefficients, run.sizes)
        cells = (
            f"{run.name}",
            f"{steps:,}",
            f"{1e3 * seconds:,.0f}",
            duration(steps * seconds),
            size(disk_bytes(run)),
            size(memory_bytes(run)),
            size(memory_bytes(run, remembered=True)),
            size(network_bytes(run.sizes)),
        )
        print("| " + " | ".join(cells) + " |")


def size(count):
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"


def duration(seconds):
    for unit, length in (("s", 60), ("min", 60), ("h", 48), ("days", float("inf"))):
        if seconds < length * 2 or unit == "days":
            return f"{seconds:.3g} {unit}"
        seconds /= {"s": 60, "min": 60, "h": 24}[unit]
    return ""


if __name__ == "__main__":
    main()
