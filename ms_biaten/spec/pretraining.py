"""The command `pretrain`: one source model, a backbone with a bottleneck and a classifier."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ms_biaten.spec import console
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import remove_unfinished, write_atomically
from ms_biaten.spec.image_options import (
    add_image_options,
    add_model_options,
    backbone_options,
    classes_of,
    images_of,
    place_of,
    transform_of,
)
from ms_biaten.spec.lists import ImageList, split
from ms_biaten.spec.locks import beside
from ms_biaten.spec.source_training import Images, initial_heads, pretrain, remove_states
from ms_biaten.spec.sources import weights_digest, write_source
from ms_biaten.spec.weights import Arrays

# Supplement, Pre-training Source Models: AdamW 5e-5 for DomainNet, SGD 0.01 for the Office sets.
# What the paper leaves open (decay, the backbone's smaller rate) is the SHOT family's.
OPTIMIZERS = {
    "adamw": {"lr": 5e-5, "weight_decay": 0.05, "backbone_scale": 1.0},
    "sgd": {"lr": 1e-2, "weight_decay": 1e-3, "backbone_scale": 0.1},
}

# The options that decide a source's weights, beside its images, classes and start.
DECIDING = (
    *("backbone", "backbone_set", "resize", "crop", "batch", "seed", "epochs", "held_out"),
    *("optimizer", "lr", "backbone_scale", "weight_decay", "label_smoothing"),
    *("width", "head_seed", "precision"),
)


class Files(NamedTuple):
    """All that the training of a source writes, in this order; states go when the rest is there."""

    state: Path
    before: Path
    backbone: Path
    heads: Path
    results: Path

    @classmethod
    def of(cls, folder: Path, domain: str) -> Files:
        endings = ("state", "state.before", "backbone")
        state, before, backbone = (folder / f"{domain}.{e}.safetensors" for e in endings)
        heads, results = folder / f"{domain}.safetensors", folder / f"{domain}.results.jsonl"
        return cls(state, before, backbone, heads, results)

    def check_untrained(self) -> None:
        if self.results.exists():
            remove_states(self.state)  # all but that was done when a kill came
        # A backbone beside a state is a try that was killed.
        for made in (self.results, self.backbone):
            if made.exists() and not self.state.exists():
                raise UserError(
                    f"{made}: this source is trained already; delete it or use another --output"
                )


def epochs_of(options: argparse.Namespace, images: ImageList) -> int:
    """As many whole epochs as reach --steps, where it is given."""
    if options.steps is None:
        return 20 if options.epochs is None else int(options.epochs)
    rows = len(split(images, options.held_out, options.seed)[0])
    batches = rows // options.batch + (rows % options.batch > 1)  # one image alone is left out
    return math.ceil(options.steps / batches)


def identity_of(
    options: argparse.Namespace, classes: Sequence[str], images: ImageList, start: Arrays
) -> dict[str, Any]:
    """What a state on disk must have been trained with to go on from it."""
    content = hashlib.sha256(repr((images.names, images.labels, classes)).encode()).hexdigest()
    settings = {name: str(getattr(options, name)) for name in DECIDING}
    return {**settings, "images": content, "start": weights_digest(start)}


# -- command ----------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    add_image_options(parser)
    add_model_options(parser)
    add_training_options(parser)
    parser.add_argument("--domain", required=True, help="name of the source")
    parser.add_argument("--output", required=True, type=Path, help="folder of the sources")


def add_training_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", type=Path, help="checkpoint that the backbone starts from")
    parser.add_argument(
        "--download", action="store_true", help="let timm fetch its weights (PyTorch only)"
    )
    parser.add_argument("--optimizer", choices=list(OPTIMIZERS), default="sgd")
    parser.add_argument("--lr", type=float, help="of the heads; default by the optimizer")
    parser.add_argument("--backbone-scale", type=float, help="share of it for the backbone")
    parser.add_argument("--weight-decay", type=float)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=int, help="default: 20")
    length.add_argument("--steps", type=int, help="as many whole epochs as reach these")
    parser.add_argument("--width", type=int, default=256, help="of the bottleneck")
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--held-out", type=float, default=0.1, help="share that validates")
    parser.add_argument("--head-seed", type=int, default=0, help="keep it for all sources")


def pretrain_command(options: argparse.Namespace, backend: str, program: str) -> None:
    for key, value in OPTIMIZERS[options.optimizer].items():
        if getattr(options, key) is None:
            setattr(options, key, value)
    transform, place = transform_of(options), place_of(options)
    if not options.domain or "/" in options.domain:
        raise UserError(f"--domain {options.domain}: expected a plain name")
    if options.batch < 2 or not 0 < options.held_out < 1:
        raise UserError("--batch needs at least 2, --held-out a share between 0 and 1")
    if options.width < 1 or options.head_seed < 0:
        raise UserError("--width needs at least 1, --head-seed at least 0")
    if any(n is not None and n < 1 for n in (options.epochs, options.steps)):
        raise UserError("--epochs and --steps need at least 1")
    classes = classes_of(options)
    images = images_of(options, classes)
    if images.labels is None:
        raise UserError("a source needs labels: pass --labelled, or a --list with them")
    if len(images) < 2 * options.batch:
        raise UserError(f"--batch: {options.batch} is too large for {len(images)} images")
    if len(split(images, options.held_out, options.seed)[0]) < 2:
        raise UserError(f"--held-out: {options.held_out} leaves no images to train on")
    options.epochs = epochs_of(options, images)
    files = Files.of(options.output, options.domain)
    files.check_untrained()
    framework = importlib.import_module(backend)
    framework.prepare(place)
    backbone = framework.new_backbone(
        options.backbone,
        options.seed,
        weights=options.weights,
        download=options.download,
        **backbone_options(options),
    )
    start = framework.arrays_of(backbone)
    raw = framework.width_of(backbone)
    heads = initial_heads(raw, options.width, len(classes), options.head_seed)
    trainer = framework.Trainer(backbone, heads, options, place)
    identity = identity_of(options, classes, images, start)
    feed = Images(images, transform, options.seed, options.workers)
    with beside(options.output / options.domain):
        files.check_untrained()  # once more: now nobody else trains it
        remove_unfinished(options.output, *(path.name for path in files))
        lines, weights = pretrain(trainer, feed, options, files.state, identity)
        write_source(options.output, options.domain, options.backbone, *parted(weights), classes)
        with write_atomically(files.results) as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
        remove_states(files.state)
    best = max(lines, key=lambda line: line["held_out"])
    console.say(
        f"{options.domain}: {best['held_out']:.1f} on its held-out images, "
        f"saved in {options.output}"
    )


def parted(weights: Arrays) -> tuple[Arrays, Arrays]:
    """Backbone and heads."""
    prefix = "backbone."
    backbone = {n.removeprefix(prefix): a for n, a in weights.items() if n.startswith(prefix)}
    return backbone, {n: a for n, a in weights.items() if not n.startswith(prefix)}


def add_to(table: Any) -> None:
    parser = table.add_parser("pretrain", help="train one source model on its labelled images")
    add_options(parser)
    parser.set_defaults(command=pretrain_command)
