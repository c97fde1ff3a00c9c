"""The command `extract`: target images through the frozen source backbones, once, into a bank."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ms_biaten.spec import console
from ms_biaten.spec.bank import VIEWS
from ms_biaten.spec.decoding import decoded, in_batches
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.extraction import Partial, Plan, Unwritten, finished, forget_state
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
from ms_biaten.spec.locks import beside
from ms_biaten.spec.sources import check_classes, weights_digest, write_heads
from ms_biaten.spec.weights import Arrays
from ms_biaten.spec.workers import Workers, meet

SAVE_EVERY = 20  # batches between two states on disk

Features = Callable[[np.ndarray], np.ndarray]  # images (B,3,H,W) -> (B,N,R)


def fill(
    partial: Unwritten,
    features: Features,
    images: ImageList,
    plan: Plan,
    transform: Transform,
    options: argparse.Namespace,
    workers: Workers,
) -> None:
    """Fills the bank from wherever an earlier try stopped; each worker its part of every batch."""
    if partial.done and workers.main:
        console.say(f"going on after {partial.done} of {len(images)} images")

    def read(row: int) -> np.ndarray | str:
        """A sample's views (V,3,H,W), or why it could not be read."""
        try:
            image = read_image(images.path(row))
        except BadImageError as error:
            return str(error)
        return np.stack([view_of(image, v, transform, options.seed, row) for v in plan.views])

    batches = [np.array(b) for b in in_batches(partial.done, len(images), options.batch)]
    parts = [workers.part(batch).tolist() for batch in batches]
    items_of = decoded(parts, read, options.workers)
    hidden = None if workers.main else True
    bar = tqdm(total=len(images), initial=partial.done, unit="image", disable=hidden)
    with bar, saved_when_stopped(partial):
        for count, (batch, part, items) in enumerate(zip(batches, parts, items_of, strict=True), 1):
            found = list(zip(part, items, strict=True))
            bad = [f"{row} {item}" for row, item in found if isinstance(item, str)]
            for text in workers.gathered_texts(bad):
                row, why = text.split(" ", 1)
                note_bad_image(partial, int(row), why, options.skip_bad, workers.main)
            good = {row: item for row, item in found if not isinstance(item, str)}
            seen = np.zeros((0, len(plan.views), len(plan.domains), plan.width), np.float32)
            if good:
                seen = features_of(features, np.stack(list(good.values())))  # (B,V,N,R)
            rows, seen = workers.gathered(np.array(list(good), int)), workers.gathered(seen)
            for v, view in enumerate(plan.views):
                partial.put(rows, {view: seen[:, v]})
            partial.done = int(batch[-1]) + 1
            bar.update(len(batch))
            if count % SAVE_EVERY == 0:
                partial.save()
    partial.save()


@contextmanager
def saved_when_stopped(partial: Unwritten) -> Iterator[None]:
    """A stop costs the batch it falls into, and nothing else."""
    try:
        yield
    except KeyboardInterrupt:
        partial.save()
        raise


def features_of(features: Features, views: np.ndarray) -> np.ndarray:
    """views (B,V,3,H,W) -> (B,V,N,R)."""
    B, V = views.shape[:2]
    made = features(views.reshape(B * V, *views.shape[2:]))
    check_finite(made)
    return made.reshape(B, V, *made.shape[1:])


def check_finite(features: np.ndarray) -> None:
    if not np.isfinite(features).all():
        raise RunError("a backbone gave NaN or Inf; are its weights whole?")


def note_bad_image(partial: Unwritten, row: int, why: str, skip: bool, aloud: bool) -> None:
    if not skip:
        partial.save()
        raise UserError(f"{why}; mend or remove it, or leave such files out with --skip-bad")
    partial.bad[row] = why
    if aloud:
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
    workers = meet(framework, program)
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
        if workers.main:
            forget_state(options.output)
            console.say(f"{options.output} is there already, with the same sources and images")
        return
    with held(options.output, workers):
        partial = open_partial(options.output, plan, workers)
        workers.begin("the same command")
        extractor = framework.Extractor(backbones, place)
        fill(partial, extractor, images, plan, transform, options, workers)
        if isinstance(partial, Partial):
            for name, arrays in heads.items():
                write_heads(partial.folder / "heads", name, arrays, classes)
            bank = partial.finish()
            left_out = f", {len(partial.bad)} left out" if partial.bad else ""
            console.say(
                f"{options.output}: {len(bank)} images{left_out}, {len(sources)} sources, "
                f"{plan.width} features each, views: {', '.join(plan.views)}"
            )
    workers.leave()


def held(output: Path, workers: Workers) -> AbstractContextManager[object]:
    """One worker holds it for all."""
    return beside(output) if workers.main else nullcontext()


def open_partial(output: Path, plan: Plan, workers: Workers) -> Unwritten:
    """One worker opens the files; the others learn how far they reach."""
    partial = Partial(output, plan) if workers.main else Unwritten(0)
    partial.done = int(workers.gathered(np.array([partial.done])).max())
    return partial


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
