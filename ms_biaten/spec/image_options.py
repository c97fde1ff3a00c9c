"""Options of the commands that see images: which images, which backbone, where it runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ms_biaten.spec.config import DEVICES, MACHINE, PRECISIONS, Config, Run
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.images import Transform
from ms_biaten.spec.lists import (
    ImageList,
    class_folders,
    read_classes,
    read_list,
    scan_classes,
    scan_folder,
)
from ms_biaten.spec.orders import class_order, is_order, known_orders
from ms_biaten.spec.reading import parse_yaml


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """Which images, with which labels."""
    parser.add_argument("--images", required=True, type=Path, help="folder of the images")
    parser.add_argument("--list", type=Path, help="lines 'path label' or 'path' below --images")
    parser.add_argument(
        "--labelled", action="store_true", help="the sub-folders of --images are the labels"
    )
    parser.add_argument(
        "--classes",
        help="file of class names, one a line, in label order, or a known order: office_home/lists",
    )


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Which backbone, and how it is fed."""
    parser.add_argument("--backbone", required=True, help="timm's name, for example resnet50")
    add_backbone_set(parser)
    parser.add_argument("--resize", type=int, default=256, help="square that an image becomes")
    parser.add_argument("--crop", type=int, default=224, help="what the backbone sees of it")
    parser.add_argument("--seed", type=int, default=0)
    add_feeding_options(parser)


def add_backbone_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backbone-set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the model, for example absolute_position=true",
    )


def add_feeding_options(parser: argparse.ArgumentParser) -> None:
    """How many images at once, and on what."""
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2, help="threads that decode images")
    parser.add_argument("--device", choices=DEVICES, default="CPU")
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="of the backbones' arithmetic"
    )
    parser.add_argument(
        "--mode",
        choices=["graph", "pynative"],
        help="MindSpore: compile the backbones, or run them op by op (default: op by op on CPU)",
    )
    parser.add_argument(
        "--cpu-threads",
        type=int,
        default=0,
        help="of a MindSpore kernel on CPU: 1 repeats to the last bit; default: all cores",
    )


def place_of(options: argparse.Namespace) -> Config:
    """Where a command computes, as `runtime.prepare` takes it."""
    if options.batch < 1 or min(options.workers, options.cpu_threads) < 0:
        raise UserError("--batch must be at least 1, --workers and --cpu-threads at least 0")
    if getattr(options, "seed", 0) < 0:
        raise UserError("--seed must be at least 0")
    machine = {name: getattr(options, name) for name in MACHINE}
    # On CPU a graph is a little quicker, but takes minutes to compile several backbones and several
    # times the memory: benchmarks/extraction.py.
    machine["mode"] = options.mode or ("pynative" if options.device == "CPU" else "graph")
    return Config(run=Run(**machine))


def backbone_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `make_backbone` is told beside the name."""
    return {"image_size": options.crop, **set_options(options)}


ELSEWHERE = {
    "name": "--backbone",
    "weights": "--weights or --source",
    "image_size": "--crop, in convert --image-size",
    "download": "--download",
}


def set_options(options: argparse.Namespace) -> dict[str, Any]:
    """The --backbone-set texts; values as YAML reads them."""
    result: dict[str, Any] = {}
    for text in options.backbone_set:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--backbone-set {text}: expected KEY=VALUE")
        if key in ELSEWHERE:
            raise UserError(f"--backbone-set {text}: {key} is set by {ELSEWHERE[key]}")
        result[key] = parse_yaml(value, f"--backbone-set {text}")
    return result


def transform_of(options: argparse.Namespace) -> Transform:
    if not 0 < options.crop <= options.resize:
        raise UserError(
            f"--crop: must be above 0 and at most --resize ({options.resize}), found {options.crop}"
        )
    return Transform(options.resize, options.crop)


def classes_of(options: argparse.Namespace) -> tuple[str, ...]:
    """A known order, a file, or, where folders are the labels, their sorted names."""
    if options.classes is None:
        if options.labelled:
            found = class_folders(options.images)
            if len(found) < 2:
                raise UserError(
                    f"{options.images}: {len(found)} sub-folders; expected one for each class, at "
                    "least two, with its images"
                )
            return found
        raise UserError("--classes: name a file with the class names, one a line, in label order")
    if is_order(options.classes):
        return class_order(options.classes)
    if not Path(options.classes).is_file():
        raise UserError(
            f"--classes {options.classes}: neither a file nor a known order; known: "
            f"{', '.join(known_orders())}"
        )
    return read_classes(Path(options.classes))


def images_of(options: argparse.Namespace, classes: Sequence[str]) -> ImageList:
    if options.list:
        return read_list(options.list, options.images, classes)
    if options.labelled:
        return scan_classes(options.images, classes)
    return scan_folder(options.images)
