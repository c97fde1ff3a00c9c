"""Backbones in both frameworks with the same weights, and how far their features are apart.

`python -m parity_tests.backbones` prints that for every case, or for models as published:
`python -m parity_tests.backbones swin_base_patch4_window7_224`.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from ms_biaten.backbones import make_backbone
from ms_biaten.runtime import Graph
from parity_tests.harness import MODES, error, ms, torch
from tests.test_backbones import SWIN, scrambled
from torch_ref import backbones as theirs
from torch_ref.importers import save_backbone

TINY = {"embed_dim": 24, "depths": (2, 1, 2, 1), "num_heads": (1, 2, 3, 6)}
THIN = {"layers": (1, 2, 1, 1), "channels": (8, 16, 24, 32)}
LITE0 = "tf_efficientnet_lite0"


def twins(name, folder, image_size, **options):
    """The same random weights in both frameworks, carried by the file that both read."""
    options["image_size"] = image_size
    mirror = scrambled(theirs.make_backbone(name, **options))
    save_backbone(folder / "a.safetensors", name, mirror)
    return make_backbone(name, weights=folder / "a.safetensors", **options), mirror


def drawn(size, count=2):
    height, width = size if isinstance(size, tuple) else (size, size)
    return np.random.default_rng(0).normal(size=(count, 3, height, width)).astype(np.float32)


def difference(ours, mirror, images, mode="pynative"):
    call = Graph(ours) if mode == "graph" else ours
    with torch.no_grad():
        expected = mirror(torch.from_numpy(images)).numpy()
    assert expected.std() > 0.1  # features that say something
    return error(call(ms.Tensor(images)).asnumpy(), expected)


CASES = {
    "swin": (SWIN, 64, {**TINY, "window_size": 2}),
    "swin, padded windows": (SWIN, 96, {**TINY, "window_size": 7}),
    "swin, odd merging": (SWIN, 60, {**TINY, "window_size": 7}),
    "swin, oblong": (SWIN, (64, 96), {**TINY, "window_size": (4, 2, 4, 3)}),
    "swin, positions": (SWIN, 64, {**TINY, "window_size": 4, "absolute_position": True}),
    "resnet50": ("resnet50", 64, {}),
    "resnet50, odd": ("resnet50", 75, THIN),
    "lite0": (LITE0, 112, {}),
    "lite0, odd": (LITE0, 75, {}),
    "lite0, oblong": (LITE0, (64, 90), {}),
}


def main(names):
    chosen = {name: (name, 224, {}) for name in names} or CASES
    for case, (name, size, options) in chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            pair = twins(name, Path(folder), size, **options)
        images = drawn(size, 1 if names else 2)
        errors = (f"{mode} {difference(*pair, images, mode):.1e}" for mode in MODES)
        print(f"{case:30}", *errors, sep="  ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
