"""The commands of `spec.commands`, run by PyTorch, and those that need images and timm."""

import sys

from ms_biaten.spec import commands


def add_pretrain(table):
    from torch_ref import pretrain

    parser = table.add_parser("pretrain", help="train one source model on its labelled images")
    pretrain.add_options(parser)
    parser.set_defaults(command=lambda options, *_: pretrain.pretrain_command(options))


def add_extract(table):
    from torch_ref import extract

    parser = table.add_parser("extract", help="target images into a feature bank")
    extract.add_options(parser)
    parser.set_defaults(command=lambda options, *_: extract.extract_command(options))


def add_build(table):
    from torch_ref import build

    parser = table.add_parser("build", help="a benchmark's images into sources and feature banks")
    build.add_options(parser)
    parser.set_defaults(command=lambda options, *_: build.build_command(options))


def main(arguments=None):
    more = (add_pretrain, add_extract, add_build)
    return commands.main("python -m torch_ref", "torch_ref.backend", arguments, more)


if __name__ == "__main__":
    sys.exit(main())
