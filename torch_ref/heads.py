"""The heads of all sources at once: bottlenecks k_s (trained), classifiers g_s (frozen).

Shapes: B batch, N sources, R raw width, D bottleneck width, C classes.
"""

import torch
from torch import nn

from torch_ref.quick import affine


def weight_norm(weight_v, weight_g):
    """Each row of weight_v (C,D), scaled to the length weight_g (C,1)."""
    return weight_v * (weight_g / weight_v.square().sum(1, keepdim=True).sqrt())


class WeightNormLinear(nn.Module):
    """The classifier while it is trained; `spec.weights.fold_weight_norm` freezes it."""

    def __init__(self, width, classes):
        super().__init__()
        self.weight_v = nn.Parameter(torch.zeros(classes, width))
        self.weight_g = nn.Parameter(torch.zeros(classes, 1))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, phi):
        return phi @ weight_norm(self.weight_v, self.weight_g).T + self.bias


class Bottlenecks(nn.Module):
    """raw (B,N,R) -> phi (B,N,D): a linear layer and batch normalisation for every source."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.weight = nn.Parameter(torch.zeros(sizes.sources, sizes.raw, sizes.width))
        self.bias = nn.Parameter(torch.zeros(sizes.sources, 1, sizes.width))
        # One layer over N*D channels: channels are independent, so it equals N layers over D.
        self.norm = nn.BatchNorm1d(sizes.sources * sizes.width, eps=1e-5, momentum=0.1)

    def linear(self, raw):
        """Before normalisation, sources side by side: (B, N*D)."""
        z = affine(raw.transpose(0, 1), self.weight, self.bias)  # (N,B,D)
        return z.transpose(0, 1).reshape(raw.shape[0], self.sizes.sources * self.sizes.width)

    def forward(self, raw):
        return self.norm(self.linear(raw)).reshape(-1, self.sizes.sources, self.sizes.width)


class Classifiers(nn.Module):
    """Frozen, weight normalisation folded: weight (N,D,C), bias (N,C); used by `attention`."""

    def __init__(self, sizes):
        super().__init__()
        self.weight = nn.Parameter(
            torch.zeros(sizes.sources, sizes.width, sizes.classes), requires_grad=False
        )
        self.bias = nn.Parameter(torch.zeros(sizes.sources, sizes.classes), requires_grad=False)
