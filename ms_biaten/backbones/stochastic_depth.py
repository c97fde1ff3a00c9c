"""Stochastic depth: in training, a block's branches are left out for some samples.

Which ones is drawn by NumPy, outside of the graph, and assigned before a step: a compiled graph has
no random state that a resumed run would have to find again.
"""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

NAME = "drawn_depth"  # of the parameter; it is no weight, and no file has it


def rates_of(rate, depths):
    """timm's: rising evenly from 0 at the first block to `rate` at the last."""
    values = np.linspace(0, rate, sum(depths)).tolist()
    starts = np.cumsum([0, *depths])
    return [values[starts[i] : starts[i + 1]] for i in range(len(depths))]


class DropPath(nn.Cell):
    """branch (B,...) times 0 or 1/(1-rate) for each sample. Called in training alone: a cell that
    hands its input on unchanged makes MindSpore's gradients wrong in pynative mode."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.drawn_depth = Parameter(ops.ones((1,)), requires_grad=False)

    def construct(self, branch):
        drawn = self.drawn_depth[: branch.shape[0]]  # the last batch of an epoch may be shorter
        return branch * drawn.reshape(-1, 1, 1, 1)


def is_drawn(name):
    return name.endswith(NAME)


def draw_depth(model, batch, rng):
    """New draws for batches up to this size, always the same: a graph is compiled for it."""
    for _, cell in model.cells_and_names():
        if isinstance(cell, DropPath):
            kept = rng.random(batch) >= cell.rate
            values = kept.astype(np.float32) / (1 - cell.rate)
            cell.drawn_depth.set_data(Tensor(values), slice_shape=True)
