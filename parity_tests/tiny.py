"""A tiny Swin, and how both frameworks are asked for it."""

import importlib

from parity_tests.harness import PACKAGES

LIMIT = 1e-5
# Behind batch statistics of six samples, gradients are rounded to about 5e-5 in both frameworks.
BATCH_STATISTICS = 1e-4
TINY = {"embed_dim": 24, "depths": [1, 1, 2, 1], "num_heads": [1, 2, 2, 2], "window_size": 2}
TINY |= {"drop_path_rate": 0.0}  # drawn by each framework in its own way


def backend(framework):
    return importlib.import_module(f"{PACKAGES[framework]}.backend")
