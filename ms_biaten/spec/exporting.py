"""The command `export`: the adapted model of a run as a folder that can be served.

model.mindir   or model.onnx: one graph, any batch size
model.json     classes, sources, how an image is cut, inputs and outputs, checksums
predict.py     classifies images with them; needs none of this package
images.py      how it reads and cuts images
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ms_biaten
from ms_biaten.spec import console
from ms_biaten.spec.adapted import Adapted, open_run
from ms_biaten.spec.bank import digest
from ms_biaten.spec.config import PRECISIONS, Config, Run
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.files import open_up, write_atomically
from ms_biaten.spec.images import MEAN, STD, normalised
from ms_biaten.spec.predicting import add_model_place
from ms_biaten.spec.stopping import code_of

FORMAT, VERSION = "ms_biaten.export", 1
CHECKED = (1, 7, 3)  # batch sizes that a new file must answer as the live model does
TOLERANCE = {"fp32": 1e-4, "fp16": 2e-2}  # of probabilities and weights
HERE = Path(__file__).resolve()
SCRIPTS = (HERE.parents[1] / "served/predict.py", HERE.parent / "images.py")
OUTPUTS = ("probabilities", "beta", "alpha")


def input_shape(adapted: Adapted, inputs: str) -> tuple[int, ...]:
    """Of one sample: bytes (H,W,3), or features (N,R)."""
    if inputs == "images":
        side = adapted.described.transform.crop
        return (side, side, 3)
    sizes = adapted.engine.sizes
    return (sizes.sources, sizes.raw)


def examples(shape: Sequence[int], inputs: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    if inputs == "images":
        return [rng.integers(0, 256, (count, *shape), np.uint8) for count in CHECKED]
    return [rng.normal(size=(count, *shape)).astype(np.float32) for count in CHECKED]


def live_outputs(
    adapted: Adapted, framework: Any, batches: list[np.ndarray], inputs: str
) -> list[Any]:
    if inputs == "features":
        return [adapted.predict(batch) for batch in batches]
    see = framework.Extractor(adapted.backbones, adapted.config)
    return [adapted.predict(see(normalised(batch))) for batch in batches]


def compare(made: list[Any], expected: list[Any], precision: str) -> float:
    """The largest difference; an export that computes something else is none."""
    worst = 0.0
    for ours, theirs in zip(made, expected, strict=True):
        for name, one, other in zip(OUTPUTS, ours, theirs, strict=True):
            if one.shape != other.shape or not np.isfinite(one).all():
                raise RunError(
                    f"the exported file gives {name} of shape {one.shape}, or not finite"
                )
            worst = max(worst, float(np.abs(one - other).max()))
    if worst > TOLERANCE[precision]:
        raise RunError(
            f"the exported file differs from the live model by {worst:.1e}, more than "
            f"{TOLERANCE[precision]:.0e}; nothing was written"
        )
    return worst


def card(
    adapted: Adapted, framework: Any, shape: Sequence[int], inputs: str, folder: Path, main: str
) -> dict[str, Any]:
    """model.json: all that is needed beside the graph."""
    described, sizes = adapted.described, adapted.engine.sizes
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".py")
    N, C = sizes.sources, sizes.classes
    shapes = {"probabilities": [C], "beta": [N], "alpha": [N, N]}
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "made_with": {"ms_biaten": ms_biaten.__version__, **framework.versions()},
        "file": main,
        "sha256": {path.relative_to(folder).as_posix(): digest(path) for path in files},
        "method": adapted.config.method.name,
        "target": adapted.config.target,
        "precision": adapted.config.run.precision,
        "classes": described.classes,
        "sources": described.domains,
        "input": {
            "name": inputs,
            "dtype": "uint8" if inputs == "images" else "float32",
            "shape": ["batch", *shape],
        },
        "outputs": [{"name": n, "shape": ["batch", *shapes[n]]} for n in OUTPUTS],
    }
    if inputs == "images":
        cut = described.transform
        tree["preprocess"] = {
            "colour": "RGB, upright by EXIF, transparency on white",
            "resize": [cut.resize, cut.resize],
            "interpolation": "bilinear",
            "center_crop": [cut.crop, cut.crop],
            "inside_the_graph": {"scale": 1 / 255, "mean": MEAN.tolist(), "std": STD.tolist()},
        }
    return tree


# -- command ----------------------------------------------------------------------------------


def add_to(table: Any) -> None:
    parser = table.add_parser("export", help="the model of a run as a folder that can be served")
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run")
    parser.add_argument("--output", required=True, type=Path, help="the folder to write")
    parser.add_argument(
        "--inputs",
        choices=["images", "features"],
        default="images",
        help="what the graph takes: bytes of cut images, or the backbones' features",
    )
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="of the backbones")
    add_model_place(parser)
    parser.set_defaults(command=export_command)


def export_command(options: argparse.Namespace, backend: str, program: str) -> None:
    output, inputs = options.output, options.inputs
    if output.exists():
        raise UserError(f"{output} is there already; remove it or pass another --output")
    framework = importlib.import_module(backend)
    place = Config(run=Run(precision=options.precision, mode="pynative", cpu_threads=0))
    framework.prepare(place)
    adapted = open_run(options.run, framework, place, inputs == "images", options.models)
    aside = output.with_name(f".{output.name}.partial")
    try:
        shutil.rmtree(aside, ignore_errors=True)  # of a try that was killed
        aside.mkdir(parents=True)
        worst, main = fill(aside, adapted, framework, inputs)
        aside.rename(output)
    except OSError as error:
        raise UserError(f"--output {output}: cannot be written ({error.strerror})") from None
    except KeyboardInterrupt as stop:
        console.say("stopped; nothing was written")
        sys.exit(code_of(stop))  # not the general message: the same command begins anew
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file()) / 1e6
    console.say(
        f"{output}: {main}, {size:.0f} MB, batches of any size; run and compared with the live "
        f"model: differs by {worst:.1e} at most"
    )
    if inputs == "images":
        console.say(f"try it: python {output / 'predict.py'} IMAGES...")


def fill(folder: Path, adapted: Adapted, framework: Any, inputs: str) -> tuple[float, str]:
    """Everything that the folder holds; the graph is run before it counts."""
    shape = input_shape(adapted, inputs)
    batches = examples(shape, inputs)
    expected = live_outputs(adapted, framework, batches, inputs)
    framework.export(adapted, shape, inputs == "images", folder / "model")
    main = next(iter(sorted(folder.glob(f"model*.{framework.EXPORTED}")))).name
    for path in folder.rglob("*"):
        if path.is_file():
            open_up(path)  # MindSpore writes for its owner alone
    made = framework.run_exported(folder / main, batches)
    worst = compare(made, expected, adapted.config.run.precision)
    tree = card(adapted, framework, shape, inputs, folder, main)
    if inputs == "images":
        for script in SCRIPTS:
            shutil.copyfile(script, folder / script.name)
    with write_atomically(folder / "model.json") as file:
        file.write(json.dumps(tree, indent=1).encode())
    return worst, main
