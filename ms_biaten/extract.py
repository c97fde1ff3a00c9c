"""Target images through the frozen source backbones, once, into a feature bank on disk.

    python ms_biaten/extract.py --source photo=models/photo --source sketch=models/sketch \\
        --backbone resnet50 --images pictures --classes classes.txt --target mine \\
        --output banks/mine
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file, Python puts this folder first
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import mindspore as ms
import numpy as np

from ms_biaten.runtime import compiled, half_precision


class Extractor:
    """images (B,3,H,W) -> features (B,N,R) of the frozen backbones, as arrays."""

    def __init__(self, backbones, config):
        self.batch = 0  # the largest batch that was seen
        self.backbones = [half_precision(b, config.run.precision) for b in backbones]
        self.calls = [compiled(backbone, config) for backbone in self.backbones]

    def __call__(self, images):
        self.batch = max(self.batch, len(images))
        short = self.batch - len(images)  # a last, shorter batch is padded: no second compilation
        padded = np.pad(images, ((0, short), (0, 0), (0, 0), (0, 0))) if short else images
        seen = ms.Tensor.from_numpy(np.ascontiguousarray(padded))
        for backbone in self.backbones:
            backbone.set_train(False)
        features = [call(seen).asnumpy()[: len(images)] for call in self.calls]
        return np.stack(features, 1).astype(np.float32)


def main(arguments=None):
    from ms_biaten.cli import main as command_line

    return command_line(["extract", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
