"""`convert`: a backbone's weights from one file into another, through the model itself.

The model is built and filled strictly, so what is written has every tensor once and no other.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.image_options import add_backbone_set, set_options


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="the file to read")
    parser.add_argument("output", metavar="OUTPUT", help="the file to write; its ending decides")
    parser.add_argument(
        "--backbone", required=True, metavar="NAME", help="timm's name of the model"
    )
    parser.add_argument("--image-size", type=int, default=224, help="Swin is made for one size")
    parser.add_argument(
        "--absolute-position", action="store_true", help="a Swin with absolute_pos_embed"
    )
    add_backbone_set(parser)


def convert_command(options: argparse.Namespace, backend: str, program: str) -> None:
    framework = importlib.import_module(backend)
    output = Path(options.output)
    check_output(output, framework.BACKBONE_FILES, program)
    framework.convert(
        Path(options.source),
        output,
        options.backbone,
        **{"absolute_position": options.absolute_position, **set_options(options)},
        image_size=options.image_size,
    )
    print(f"{options.backbone}: {options.source} -> {output}")


def check_output(output: Path, endings: tuple[str, ...], program: str) -> None:
    if output.suffix not in endings:
        raise UserError(f"{output}: {program} writes backbones as {' or '.join(endings)}")
    if output.exists():
        raise UserError(f"{output} is there already; remove it or name another file")
    if not output.parent.is_dir():
        raise UserError(f"{output}: no folder {output.parent}; make it first")
