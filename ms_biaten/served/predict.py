"""Classify images with the model beside this file: python predict.py IMAGES... > predictions.csv

Needs numpy, pillow and the runtime of the model: mindspore for .mindir, onnxruntime for .onnx.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np
from images import BadImageError, Transform, center_pixels, read_image

HERE = Path(__file__).resolve().parent


def open_mindir(path, device):
    import mindspore as ms

    ms.set_device(device)
    graph = ms.nn.GraphCell(ms.load(str(path)))
    return lambda pixels: [output.asnumpy() for output in graph(ms.Tensor(pixels))]


def open_onnx(path, device):
    import onnxruntime

    names = {"CPU": "CPUExecutionProvider", "GPU": "CUDAExecutionProvider"}
    provider = names.get(device, "CANNExecutionProvider")
    if provider not in onnxruntime.get_available_providers():
        sys.exit(f"predict.py: onnxruntime here has no {provider} for --device {device}")
    session = onnxruntime.InferenceSession(str(path), providers=[provider])
    (name,) = (entry.name for entry in session.get_inputs())
    return lambda pixels: session.run(None, {name: pixels})


OPENERS = {".mindir": open_mindir, ".onnx": open_onnx}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGES")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", choices=["CPU", "GPU", "Ascend"], default="CPU")
    options = parser.parse_args()
    sys.stdout.reconfigure(errors="surrogateescape")  # file names are any bytes
    card = json.loads((HERE / "model.json").read_text(encoding="utf-8"))
    run = OPENERS[Path(card["file"]).suffix](HERE / card["file"], options.device)
    cut = card["preprocess"]
    transform = Transform(cut["resize"][0], cut["center_crop"][0])
    table = csv.writer(sys.stdout, lineterminator="\n")
    weights = [f"weight_{source}" for source in card["sources"]]
    table.writerow(["image", "class", "confidence", "source", "classifier", *weights])
    for start in range(0, len(options.images), max(1, options.batch)):
        paths = options.images[start : start + max(1, options.batch)]
        try:
            pixels = np.stack([center_pixels(read_image(path), transform) for path in paths])
        except BadImageError as error:
            sys.exit(f"predict.py: {error}")
        for path, p, beta, alpha in zip(paths, *run(pixels), strict=True):
            source = int(beta.argmax())
            classifier = card["sources"][int(alpha[source].argmax())]
            row = [path, card["classes"][int(p.argmax())], f"{p.max():.6f}"]
            row += [card["sources"][source], classifier, *(f"{weight:.6f}" for weight in beta)]
            table.writerow(row)


if __name__ == "__main__":
    main()
