"""Images per second, start-up and peak memory of feature extraction, PyTorch against MindSpore.

    python benchmarks/extraction.py                        Swin-B, 224 pixels, one source, CPU
    python benchmarks/extraction.py --backbone resnet50 --rounds 5

Each side runs in a process of its own, in turns: the threads of one would starve the other's. What
is compared are medians over the rounds. Images are real files, decoded on the way.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
SIDES = {
    "torch": ("torch_ref", "graph"),
    "mindspore, graph": ("ms_biaten", "graph"),
    "mindspore, pynative": ("ms_biaten", "pynative"),
}


def measure(side, options):
    """One side, in this process: seconds to the first batch, images a second after it, memory."""
    import importlib

    from ms_biaten.spec.config import Config, Run
    from ms_biaten.spec.decoding import decoded, in_batches
    from ms_biaten.spec.images import Transform, center_view, read_image

    package, mode = SIDES[side]
    started = time.perf_counter()
    backend = importlib.import_module(f"{package}.backend")
    config = Config(run=Run(mode=mode, cpu_threads=0))
    backend.prepare(config)
    backbone = backend.new_backbone(options.backbone, 0, image_size=options.crop)
    extract = backend.Extractor([backbone], config)
    files = sorted(options.images.glob("*.jpg"))
    transform = Transform(256, options.crop)

    def read(row):
        return center_view(read_image(files[row]), transform)

    ready = None
    for views in decoded(in_batches(0, len(files), options.batch), read, 2):
        extract(np.stack(views))
        ready = ready or time.perf_counter()  # imports, weights, compilation and the first batch
    seconds = time.perf_counter() - ready
    return {
        "side": side,
        "startup_seconds": round(ready - started, 2),
        "images_per_second": round((len(files) - options.batch) / seconds, 3),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def draw(folder, count):
    """Photograph-sized files of coloured blocks."""
    rng = np.random.default_rng(0)
    for index in range(count):
        blocks = rng.integers(0, 256, (12, 16, 3), np.uint8)
        Image.fromarray(blocks).resize((640, 480)).save(folder / f"{index:04d}.jpg", quality=90)


def run_side(side, options, folder):
    command = [sys.executable, __file__, "--side", side, "--images", str(folder)]
    command += ["--backbone", options.backbone, "--crop", str(options.crop)]
    command += ["--batch", str(options.batch)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="swin_base_patch4_window7_224")
    parser.add_argument("--crop", type=int, default=224)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--count", type=int, default=32, help="images a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="JSON file of all rounds")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--images", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder), options.count)
        rounds = []
        for turn in range(options.rounds):
            for side in SIDES:
                rounds.append(run_side(side, options, Path(folder)))
                print(f"round {turn + 1}: {rounds[-1]}", file=sys.stderr)
    keys = ("images_per_second", "startup_seconds", "peak_memory_mb")
    medians = {
        side: {k: statistics.median(r[k] for r in rounds if r["side"] == side) for k in keys}
        for side in SIDES
    }
    base = medians["torch"]["images_per_second"]
    print(
        f"{options.backbone}, {options.crop} px, batch {options.batch}, medians of {options.rounds}"
    )
    print("| side | images/s | of torch | to the first batch, s | peak memory, MB |")
    print("|---|---|---|---|---|")
    for side, row in medians.items():
        speed, startup, memory = (row[k] for k in keys)
        print(f"| {side} | {speed:.2f} | {speed / base:.2f} | {startup:.1f} | {memory:.0f} |")
    if options.output:
        about = {"machine": platform.platform(), "python": platform.python_version()}
        tree = {"backbone": options.backbone, "batch": options.batch, "crop": options.crop}
        text = json.dumps({**tree, **about, "medians": medians, "rounds": rounds}, indent=1)
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    main()
