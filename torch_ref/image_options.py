"""Options that `extract` and `pretrain` share: which images, which classes, how they are cut."""

from pathlib import Path

import torch
import yaml

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.images import Transform
from ms_biaten.spec.lists import (
    class_folders,
    read_classes,
    read_list,
    scan_classes,
    scan_folder,
)
from ms_biaten.spec.orders import class_order, is_order, known_orders


def add_image_options(parser):
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


def add_model_options(parser):
    """Which backbone, and how it is fed."""
    parser.add_argument("--backbone", required=True, help="timm's name, for example resnet50")
    parser.add_argument(
        "--backbone-set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the model, for example absolute_position=true",
    )
    parser.add_argument("--resize", type=int, default=256, help="square that an image becomes")
    parser.add_argument("--crop", type=int, default=224, help="what the backbone sees of it")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2, help="processes that decode images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["CPU", "GPU"], default="CPU")


def backbone_options(options):
    """What `make_backbone` is told beside the name; values as YAML reads them."""
    result = {"image_size": options.crop}
    for text in options.backbone_set:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--backbone-set {text}: expected KEY=VALUE")
        result[key] = yaml.safe_load(value)
    return result


def transform_of(options):
    if not 0 < options.crop <= options.resize:
        raise UserError(
            f"--crop: must be above 0 and at most --resize ({options.resize}), found {options.crop}"
        )
    return Transform(options.resize, options.crop)


def device_of(options):
    if options.batch < 1 or options.workers < 0 or options.seed < 0:
        raise UserError("--batch must be at least 1, --workers and --seed at least 0")
    if options.device == "GPU" and not torch.cuda.is_available():
        raise UserError("device 'GPU' is not there; PyTorch here has: CPU")
    return torch.device("cuda" if options.device == "GPU" else "cpu")


def classes_of(options):
    """A known order, a file, or, where folders are the labels, their sorted names."""
    if options.classes is None:
        if options.labelled:
            return class_folders(options.images)
        raise UserError("--classes: name a file with the class names, one a line, in label order")
    if is_order(options.classes):
        return class_order(options.classes)
    if not Path(options.classes).is_file():
        raise UserError(
            f"--classes {options.classes}: neither a file nor a known order; known: "
            f"{', '.join(known_orders())}"
        )
    return read_classes(Path(options.classes))


def images_of(options, classes):
    if options.list:
        return read_list(options.list, options.images, classes)
    if options.labelled:
        return scan_classes(options.images, classes)
    return scan_folder(options.images)
