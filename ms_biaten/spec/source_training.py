"""Training one source model: epochs, order, views, the best epoch and resuming.

A framework supplies a `Trainer`; what it is told stands in `pretraining`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from ms_biaten.spec import console, guard, states
from ms_biaten.spec.checks import is_count, is_number
from ms_biaten.spec.decoding import decoded
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.files import link_atomically
from ms_biaten.spec.guard import NotFiniteError
from ms_biaten.spec.images import BadImageError, Transform, center_view, drawn_view, read_image
from ms_biaten.spec.lists import ImageList, split
from ms_biaten.spec.reading import parse_json
from ms_biaten.spec.states import DamagedError
from ms_biaten.spec.weights import Arrays, check_arrays

SCHEDULES: dict[str, Callable[[float], float]] = {
    "adamw": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "sgd": lambda done: (1 + 10 * done) ** -0.75,
}
EVALUATED = 64  # held-out images at once


class Trainer(Protocol):
    """What a framework supplies: `pretrain.Trainer` of ms_biaten and torch_ref."""

    def begin_epoch(self, epoch: int) -> None: ...

    def step(self, images: np.ndarray, labels: np.ndarray, factor: float) -> float:
        """One update with the learning rates times `factor`; the loss."""

    def logits(self, images: np.ndarray) -> np.ndarray: ...

    def weights(self) -> Arrays:
        """backbone.* by timm's names, and the heads by those of docs/bank.md."""

    def state(self) -> Arrays:
        """The weights and the optimiser's state."""

    def load(self, arrays: Arrays) -> None:
        """Weights, and the optimiser's state where it is among the arrays."""


def initial_heads(raw: int, width: int, classes: int, seed: int) -> Arrays:
    """The same start for every source: then one source's classifier can read another's features."""
    rng = np.random.default_rng([seed, 0x4EAD])
    linear = rng.normal(0, math.sqrt(2 / (raw + width)), (width, raw))
    v = rng.uniform(-1, 1, (classes, width)) / math.sqrt(width)
    arrays = {
        "bottleneck.weight": linear,
        "bottleneck.bias": np.zeros(width),
        "bn.weight": np.ones(width),
        "bn.bias": np.zeros(width),
        "bn.running_mean": np.zeros(width),
        "bn.running_var": np.ones(width),
        "fc.weight_v": v,
        "fc.weight_g": np.linalg.norm(v, axis=1, keepdims=True),
        "fc.bias": np.zeros(classes),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


class Images:
    """Rows of a labelled list, in batches: drawn views to train on, centre views to validate on."""

    def __init__(self, images: ImageList, transform: Transform, seed: int, workers: int):
        self.images, self.transform = images, transform
        self.seed, self.workers = seed, workers
        self.labels = np.asarray(images.labels, np.int32)

    def batches(
        self, rows: np.ndarray, size: int, epoch: int | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        def read(row: int) -> np.ndarray:
            try:
                image = read_image(self.images.path(row))
            except BadImageError as error:
                raise UserError(f"{error}; mend or remove it") from None
            if epoch is None:
                return center_view(image, self.transform)
            return drawn_view(image, self.transform, np.random.default_rng([self.seed, epoch, row]))

        parts = [rows[start : start + size].tolist() for start in range(0, len(rows), size)]
        for part, views in zip(parts, decoded(parts, read, self.workers), strict=True):
            yield np.stack(views), self.labels[part]


def train_epoch(
    trainer: Trainer, images: Images, rows: np.ndarray, epoch: int, options: argparse.Namespace
) -> float:
    """One pass; the mean loss."""
    trainer.begin_epoch(epoch)
    count = math.ceil(len(rows) / options.batch)
    total, title = 0.0, f"epoch {epoch + 1}/{options.epochs}"
    batches = images.batches(rows, options.batch, epoch)
    with tqdm(batches, title, count, leave=False, disable=None, dynamic_ncols=True) as bar:
        for index, (views, labels) in enumerate(bar):
            done = (epoch * count + index) / (options.epochs * count)
            loss = trainer.step(views, labels, SCHEDULES[options.optimizer](done))
            part = rows[index * options.batch : (index + 1) * options.batch]
            names = [images.images.names[row] for row in part]
            guard.check_images_step(loss, names, f"{title}, batch {index + 1}")
            total += loss
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
    return total / count


def accuracy_of(trainer: Trainer, images: Images, rows: np.ndarray) -> float:
    right = 0
    for views, labels in images.batches(rows, EVALUATED):
        right += int((trainer.logits(views).argmax(1) == labels).sum())
    return 100 * right / len(rows)


def pretrain(
    trainer: Trainer,
    images: Images,
    options: argparse.Namespace,
    state_file: Path,
    identity: dict[str, Any],
) -> tuple[list[dict[str, Any]], Arrays]:
    """Epoch by epoch, resumable; the lines of the results, and the best epoch's weights."""
    lines: list[dict[str, Any]] = []
    best: Arrays = {}
    saved = resumed(trainer, state_file, identity)
    if saved:
        lines, best = saved
        console.say(f"going on after epoch {len(lines)} of {options.epochs}")
    try:
        best = train_epochs(trainer, images, options, state_file, identity, lines, best)
    except NotFiniteError as error:
        raise RunError(f"{error}; {advice(state_file, len(lines), options)}") from None
    return lines, best


def train_epochs(
    trainer: Trainer,
    images: Images,
    options: argparse.Namespace,
    state_file: Path,
    identity: dict[str, Any],
    lines: list[dict[str, Any]],
    best: Arrays,
) -> Arrays:
    """From the last of the lines on, which grow; the best epoch's weights."""
    train_rows, held_rows = split(images.images, options.held_out, options.seed)
    for epoch in range(len(lines), options.epochs):
        rows = np.random.default_rng([options.seed, epoch]).permutation(train_rows)
        rows = rows[: len(rows) - (len(rows) % options.batch == 1)]  # one alone has no statistics
        loss = train_epoch(trainer, images, rows, epoch, options)
        state = trainer.state()
        guard.check_weights(state, [options.domain])
        held = accuracy_of(trainer, images, held_rows)
        lines.append({"epoch": epoch + 1, "loss": loss, "held_out": held})
        console.say(
            f"epoch {epoch + 1}/{options.epochs}  loss {loss:.3f}  "
            f"accuracy on the held-out {len(held_rows)}: {held:.1f}"
        )
        if held >= max(line["held_out"] for line in lines):
            best = trainer.weights()
        write_state(state_file, identity, lines, best, state)
    return best


def advice(state_file: Path, epochs: int, options: argparse.Namespace) -> str:
    """A state on disk goes on with the very settings that led here, and no others."""
    anew = f"start anew with a smaller --lr (now {options.lr:g})"
    if not epochs:
        return anew
    return f"{state_file} keeps the state after epoch {epochs}; delete it and {anew}"


# -- the state on disk -------------------------------------------------------------------------


def before_of(path: Path) -> Path:
    """Where the state before the one in `path` stays."""
    return path.with_suffix(f".before{path.suffix}")


def resumed(
    trainer: Trainer, path: Path, identity: dict[str, Any]
) -> tuple[list[dict[str, Any]], Arrays] | None:
    """The trainer as an earlier try left it, with its lines and the best weights so far."""
    saved = read_state(path, identity)
    if saved is None:
        return None
    lines, best, arrays = saved
    try:
        trainer.load(arrays)
        check_arrays(best, {n: a.shape for n, a in trainer.weights().items()}, "best weights")
    except UserError as error:
        raise UserError(f"{path}: {error}; delete it to start anew") from None
    return lines, best


def write_state(
    path: Path,
    identity: dict[str, Any],
    lines: list[dict[str, Any]],
    best: Arrays,
    state: Arrays,
) -> None:
    """Weights, optimiser and the best weights so far, in one file for both frameworks."""
    kept = {f"best.{name}": array for name, array in best.items()}
    metadata = {"identity": json.dumps(identity), "lines": json.dumps(lines)}
    states.write_state(path, before_of(path), {**state, **kept}, metadata)


def read_state(
    path: Path, identity: dict[str, Any]
) -> tuple[list[dict[str, Any]], Arrays, Arrays] | None:
    """The state, or where it is damaged the one before it."""
    if not path.is_file():
        return None
    try:
        arrays, metadata = states.read_state(path)
    except DamagedError as damage:
        if not before_of(path).is_file():
            raise DamagedError(f"{damage}; delete it to start anew") from None
        arrays, metadata = states.read_state(before_of(path))
        link_atomically(before_of(path), path)  # or the damaged one would be the one before
        console.say(f"{damage}; going on from {before_of(path)}")
    saved, lines = (
        parse_json(metadata.get(key, ""), f"{path}: {key} of its training", "delete it")
        for key in ("identity", "lines")
    )
    if not isinstance(lines, list) or not all(map(_is_line, lines)):
        raise UserError(f"{path}: not the state of a training; delete it")
    if saved != identity:
        raise UserError(f"{path}: left by a training with other settings; delete it to start anew")
    best = {n.removeprefix("best."): a for n, a in arrays.items() if n.startswith("best.")}
    return lines, best, {n: a for n, a in arrays.items() if not n.startswith("best.")}


def remove_states(path: Path) -> None:
    """The one before first: a state is there as long as there is any."""
    before_of(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _is_line(line: Any) -> bool:
    numbers = ("loss", "held_out")
    return (
        isinstance(line, dict)
        and is_count(line.get("epoch"))
        and all(is_number(line.get(key)) for key in numbers)
    )
