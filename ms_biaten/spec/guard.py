"""Numbers that are not finite stop a run: which term, which samples, which weights, what to try.

What is found goes into `stopped.json` of the run's folder; its checkpoint is the last whole epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ms_biaten.spec import console
from ms_biaten.spec.bank import Bank
from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import RunError
from ms_biaten.spec.metrics import Survey, finite_rows
from ms_biaten.spec.run import RunFolder
from ms_biaten.spec.weights import Arrays
from ms_biaten.spec.workers import Workers

# The parts of a loss before their sum: the first that is not finite is where it began.
TERMS = ("ce", "im_loss", *console.FURTHER_TERMS, "loss", "grad_norm")
PER_SAMPLE = ("y", "alpha", "beta")  # of a step's record
# Tensors whose first axis goes through the sources, unless all of them share one.
BY_SOURCE = ("bottlenecks.", "classifiers.", ".feature.", ".output.", "clusters.", "scalars")
OF_OUTPUTS = ("clusters.", "weights.prior", "weights.share")  # centroids; DATE's view of the target
SHOWN = 3  # samples or tensors in a message; the file has more
WRITTEN = 100  # samples in the file
OUTLYING = 1e3  # times the median: features that stand out


class NotFiniteError(RunError):
    """What was found, as one clause, and all about it for `stopped.json`."""

    def __init__(self, clause: str, found: dict[str, Any]):
        super().__init__(clause)
        self.found = found


# -- looking --------------------------------------------------------------------------------------


def check_step(
    record: Mapping[str, Any],
    rows: np.ndarray,
    bank: Bank,
    epoch: int,
    index: int,
    workers: Workers,
) -> None:
    """The losses and the gradient of one step on these rows of the bank.

    Losses are of the global batch, so all workers come to the same answer here.
    """
    terms = {term: float(record[term]) for term in TERMS if term in record}
    bad = [term for term, value in terms.items() if not math.isfinite(value)]
    if not bad:
        return
    spoilt = ~np.all([finite_rows(record[name]) for name in PER_SAMPLE], axis=0)
    rows, spoilt = workers.gathered(rows), workers.gathered(spoilt)
    more = f" (so did {', '.join(bad[1:])})" if bad[1:] else ""
    clause = f"{bad[0]} became {terms[bad[0]]} in epoch {epoch + 1}, batch {index + 1}{more}"
    if spoilt.any():
        clause += f"; not finite are {named(bank, rows[spoilt], len(rows))}"
    elif bad[0] == "grad_norm":
        clause += f"; the loss is finite ({terms['loss']:.4g}): its gradient overflows"
    else:
        clause += "; the outputs of its samples are finite"
    largest = outlying(bank, rows)
    raise NotFiniteError(
        clause + standing_out(bank, largest),
        {
            "term": bad[0],
            "epoch": epoch + 1,
            "batch": index + 1,
            "values": {term: as_json(value) for term, value in terms.items()},
            "samples": names_of(bank, rows[spoilt]),
            "sample_count": int(spoilt.sum()),
            "batch_samples": names_of(bank, rows),
            "outlying_features": {bank.samples[row]: value for row, value in largest.items()},
        },
    )


def check_outputs(survey: Survey, bank: Bank) -> None:
    """The outputs and weights of the whole target."""
    if survey.finite.all():
        return
    rows = np.flatnonzero(~survey.finite)
    largest = {row: value for row, value in outlying(bank).items() if row in set(rows.tolist())}
    raise NotFiniteError(
        f"outputs are not finite for {named(bank, rows, len(bank))}" + standing_out(bank, largest),
        {
            "term": "outputs",
            "samples": names_of(bank, rows),
            "sample_count": len(rows),
            "outlying_features": {bank.samples[row]: value for row, value in largest.items()},
        },
    )


def check_features(made: np.ndarray, first: int, bank: Bank) -> None:
    """What backbones that are trained make of the samples from row `first` on: (B,N,R)."""
    rows = first + np.flatnonzero(~finite_rows(made))
    if len(rows):
        raise NotFiniteError(
            f"the backbones' features are not finite for {named(bank, rows, len(made))}",
            {"term": "features", "samples": names_of(bank, rows), "sample_count": len(rows)},
        )


def check_weights(arrays: Arrays, domains: Sequence[str]) -> None:
    """Weights and momenta, before they can become a checkpoint."""
    bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if not bad:
        return
    # A momentum follows its weight: the weight is what to look at.
    bad.sort(key=lambda name: not name.startswith(("model.", "backbones.")))
    tensors = {name: sources_of(name, arrays[name], domains) for name in bad}
    told = [f"{n} (source {', '.join(s)})" if s else n for n, s in tensors.items()]
    more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    raise NotFiniteError(
        f"not finite in the weights: {', '.join(told[:SHOWN])}{more}",
        {"term": "weights", "weights": tensors},
    )


def check_images_step(loss: float, names: Sequence[str], place: str) -> None:
    """The loss of one step of a source's training, on these images."""
    if not math.isfinite(loss):
        shown = ", ".join(f"'{name}'" for name in names[:SHOWN])
        more = f", ... {len(names)} in all" if len(names) > SHOWN else ""
        raise NotFiniteError(f"the loss became {loss} in {place} on the images {shown}{more}", {})


def trained_among(arrays: Arrays) -> Arrays:
    """Without what is made of outputs: it is spoilt by those that are not finite."""
    return {n: a for n, a in arrays.items() if not any(part in n for part in OF_OUTPUTS)}


def sources_of(name: str, array: np.ndarray, domains: Sequence[str]) -> list[str]:
    """The sources that a tensor's bad numbers belong to, where it has a part for each."""
    if "backbones." in name:
        return [domains[int(name.split("backbones.")[1].split(".")[0])]]
    if not any(part in name for part in BY_SOURCE) or len(array) % len(domains):
        return []
    parts = zip(domains, np.split(array, len(domains)), strict=True)
    return [domain for domain, part in parts if not np.isfinite(part).all()]


def outlying(bank: Bank, rows: Iterable[int] | None = None) -> dict[int, float]:
    """Rows whose largest feature is far above the others': {row: magnitude}, largest first."""
    chosen = np.arange(len(bank)) if rows is None else np.asarray(rows)
    largest = np.concatenate(
        [
            np.abs(bank.features[part].astype(np.float32)).max((1, 2))
            for part in np.array_split(chosen, -(-len(chosen) // 512))
        ]
    )
    far = largest > OUTLYING * np.median(largest)
    order = np.argsort(-largest, kind="stable")
    return {int(chosen[i]): float(largest[i]) for i in order[:WRITTEN] if far[i]}


# -- saying ---------------------------------------------------------------------------------------


def names_of(bank: Bank, rows: np.ndarray) -> list[str]:
    return [bank.samples[row] for row in rows[:WRITTEN]]


def named(bank: Bank, rows: np.ndarray, whole: int) -> str:
    shown = ", ".join(f"'{name}'" for name in names_of(bank, rows)[:SHOWN])
    more = ", ..." if len(rows) > SHOWN else ""
    return f"{len(rows)} of {whole} samples ({shown}{more})"


def standing_out(bank: Bank, largest: Mapping[int, float]) -> str:
    if not largest:
        return ""
    told = [f"'{bank.samples[row]}' ({value:.3g})" for row, value in list(largest.items())[:SHOWN]]
    return f"; features far above all others: {', '.join(told)}"


def as_json(value: float) -> float | str:
    """JSON knows no NaN."""
    return value if math.isfinite(value) else str(value)


def advice(found: Mapping[str, Any], config: Config) -> str:
    """What to try; a run repeats, so the same settings stop at the same place."""
    train = config.train
    if found.get("outlying_features"):
        return "extract these samples again or leave them out, and start anew"
    tries = [f"a smaller train.lr (now {train.lr:g})"]
    clip = f"a smaller train.clip_norm (now {train.clip_norm:g})"
    tries.append(clip if train.clip_norm else "train.clip_norm=5 (now off)")
    if config.run.precision == "fp16":
        tries.append("--precision fp32")
    return f"start anew with {' or '.join(tries)}; --resume would stop at the same place again"


def stop(error: NotFiniteError, folder: RunFolder, workers: Workers) -> RunError:
    """Tells it to the folder, whose last whole epoch is on disk; all workers end together."""
    kept = folder.lines[-1]["epoch"] if folder.lines else 0
    what, found = advice(error.found, folder.config), {"epoch": kept + 1, **error.found}
    folder.write_stop({"what": str(error), "last_good_epoch": kept, "try": what, **found})
    workers.leave()  # one that ended before the others would take the writer with it
    state = f"{folder.path} keeps the state after epoch {kept}" if kept else "no epoch was finished"
    return RunError(f"{error}; {state}; {what}; details: {folder.stop_file}")
