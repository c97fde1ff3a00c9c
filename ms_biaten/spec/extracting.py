"""The command `extract`: target images through the frozen source backbones, once, into a bank."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ms_biaten.spec import console
from ms_biaten.spec.bank import VIEWS
from ms_biaten.spec.decoding import decoded, in_batches
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.extraction import Partial, Plan, finished
from ms_biaten.spec.files import seen_from
from ms_biaten.spec.image_options import (
    add_image_options,
    add_model_options,
    backbone_options,
    classes_of,
    images_of,
    place_of,
    transform_of,
)
from ms_biaten.spec.images import BadImageError, Transform, read_image, view_of
from ms_biaten.spec.lists import ImageList
from ms_biaten.spec.sources import check_classes, weights_digest, write_heads
from ms_biaten.spec.weights import Arrays

SAVE_EVERY = 20  # batches between two states on disk

Features = Callable[[np.ndarray], np.ndarray]  # images (B,3,H,W) -> (B,N,R)


def fill(
    features: Features,
    images: ImageList,
    plan: Plan,
    transform: Transform,
    options: argparse.Namespace,
) -> Partial:
    """Fills the bank from wherever an earlier try stopped."""
    partial = Partial(options.output, plan)
    if partial.done:
        console.say(f"going on after {partial.done} of {len(images)} images")

    def read(row: int) -> np.ndarray | str:
        """A sample's views (V,3,H,W), or why it could not be read."""
        try:
            image = read_image(images.path(row))
        except BadImageError as error:
            return str(error)
        return np.stack([view_of(image, v, transform, options.seed, row) for v in plan.views])

    batches = in_batches(partial.done, len(images), options.batch)
    bar = tqdm(total=len(images), initial=partial.done, unit="image", disable=None)
    with bar:
        for count, items in enumerate(decoded(batches, read, options.workers), 1):
            rows = range(partial.done, partial.done + len(items))
            good = {
                r: item for r, item in zip(rows, items, strict=True) if not isinstance(item, str)
            }
            for row, item in zip(rows, items, strict=True):
                if isinstance(item, str):
                    note_bad_image(partial, row, item, options.skip_bad)
            if good:
                seen = features_of(features, np.stack(list(good.values())))  # (B,V,N,R)
                for v, view in enumerate(plan.views):
                    partial.put(np.array(list(good)), {view: seen[:, v]})
            partial.done = rows.stop
            bar.update(len(items))
            if count % SAVE_EVERY == 0:
                partial.save()
    partial.save()
    return partial


def features_of(features: Features, views: np.ndarray) -> np.ndarray:
    """views (B,V,3,H,W) -> (B,V,N,R)."""
    B, V = views.shape[:2]
    made = features(views.reshape(B * V, *views.shape[2:]))
    check_finite(made)
    return made.reshape(B, V, *made.shape[1:])


def check_finite(features: np.ndarray) -> None:
    if not np.isfinite(features).all():
        raise RunError("a backbone gave NaN or Inf; are its weights whole?")


def note_bad_image(partial: Partial, row: int, why: str, skip: bool) -> None:
    if not skip:
        partial.save()
        raise UserError(f"{why}; mend or remove it, or leave such files out with --skip-bad")
    partial.bad[row] = why
    console.say(f"left out {why}")


# -- command ----------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    add_image_options(parser)
    add_model_options(parser)
    add_storing_options(parser)
    parser.add_argument(
        "--source",
        action="append",
        required=True,
        metavar="NAME=FOLDER",
        help="a trained source: its name and the folder of its files; at least two",
    )
    parser.add_argument("--target", required=True, help="a name for the images")
    parser.add_argument("--output", required=True, type=Path, help="folder of the new bank")


def add_storing_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=["center"])
    parser.add_argument("--dtype", choices=["float16", "float32"], default="float32")
    parser.add_argument("--skip-bad", action="store_true", help="leave unreadable images out")


def extract_command(options: argparse.Namespace, backend: str, program: str) -> None:
    sources = parse_sources(options.source)
    transform, place = transform_of(options), place_of(options)
    classes = classes_of(options)
    for name, folder in sources.items():
        check_classes(folder, name, classes)
    images = images_of(options, classes)
    framework = importlib.import_module(backend)
    framework.prepare(place)
    loaded = {
        name: framework.load_source_model(
            folder, name, options.backbone, **backbone_options(options)
        )
        for name, folder in sources.items()
    }
    heads: dict[str, Arrays] = {name: pair[1] for name, pair in loaded.items()}
    check_heads(heads, classes)
    backbones = [pair[0] for pair in loaded.values()]
    plan = Plan(
        target=options.target,
        domains=tuple(sources),
        classes=classes,
        samples=images.names,
        labels=images.labels,
        views=tuple(dict.fromkeys(options.views)),
        width=framework.width_of(backbones[0]),
        dtype=options.dtype,
        origin={
            "backbone": options.backbone,
            "backbone_options": backbone_options(options),
            "weights": {n: weights_digest(framework.arrays_of(p[0])) for n, p in loaded.items()},
            "transform": {**transform.__dict__, "seed": options.seed},
            "dtype": options.dtype,
            **({} if options.precision == "fp32" else {"precision": options.precision}),
        },
        models={name: seen_from(options.output, folder) for name, folder in sources.items()},
    )
    if finished(options.output, plan):
        console.say(f"{options.output} is there already, with the same sources and images")
        return
    partial = fill(framework.Extractor(backbones, place), images, plan, transform, options)
    for name, arrays in heads.items():
        write_heads(partial.folder / "heads", name, arrays, classes)
    bank = partial.finish()
    left_out = f", {len(partial.bad)} left out" if partial.bad else ""
    console.say(
        f"{options.output}: {len(bank)} images{left_out}, {len(sources)} sources, "
        f"{plan.width} features each, views: {', '.join(plan.views)}"
    )


def parse_sources(texts: Sequence[str]) -> dict[str, Path]:
    sources: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals or not name or "/" in name:
            raise UserError(f"--source {text}: expected NAME=FOLDER, for example photo=models/a")
        if name in sources:
            raise UserError(f"--source {text}: '{name}' is named twice")
        sources[name] = Path(folder)
    if len(sources) < 2:
        raise UserError("--source: one source only; weighing sources needs at least 2")
    return sources


def check_heads(heads: Mapping[str, Arrays], classes: Sequence[str]) -> None:
    for name, arrays in heads.items():
        count = len(arrays["fc.bias"])
        if count != len(classes):
            raise UserError(
                f"source '{name}' was trained on {count} classes, --classes names {len(classes)}"
            )


def add_to(table: Any) -> None:
    parser = table.add_parser("extract", help="target images into a feature bank")
    add_options(parser)
    parser.set_defaults(command=extract_command)
