"""`make emoji`: images, a fine-tuned backbone and heads per domain, a feature bank per target.

Each step goes on where it was stopped and is skipped where it is done.
"""

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file, Python puts this folder first
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.building import Places, add_step_options, build
from ms_biaten.spec.commands import exit_code
from ms_biaten.spec.target import SHIPPED
from torch_ref.emoji.__main__ import main as draw_images
from torch_ref.lite0 import BACKBONE, lite0_weights

PROGRAM = "make emoji"
IMAGES = ["--backbone", BACKBONE, "--resize", "128", "--crop", "112"]  # drawn at 112 pixels
# The SHOT family's way to train a source, shortened for 191 drawings.
TRAINING = ["--optimizer", "sgd", "--epochs", "20", "--batch", "16"]
STORING = ["--views", "center", "drawn", "--dtype", "float16"]


def step_options(workers):
    parser = argparse.ArgumentParser()
    add_step_options(parser)
    start = ["--weights", str(lite0_weights()), "--workers", workers]
    return parser.parse_args([*IMAGES, *TRAINING, *STORING, *start])


def places(root, banks):
    """Sources learn from one half of the emoji, the target is the other half."""
    halves = ("{domain}_source.txt", "{domain}_target.txt")
    return Places(root, root / "lists", root / "sources", banks, *halves)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("data/emoji"), help="images and sources")
    parser.add_argument(
        "--banks", type=Path, default=SHIPPED / "emoji", help="where configs/emoji.yaml looks"
    )
    parser.add_argument("--workers", default="2", help="threads that decode images")
    options = parser.parse_args(arguments)

    def train_and_extract():
        where, how = places(options.root, options.banks), step_options(options.workers)
        build(benchmark("emoji"), where, how, "torch_ref.backend", PROGRAM)

    return draw_images(["--root", str(options.root)]) or exit_code(PROGRAM, train_and_extract)


if __name__ == "__main__":
    sys.exit(main())
