"""The heads of all sources at once: bottlenecks k_s (trained), classifiers g_s (frozen).

Shapes: B batch, N sources, R raw width, D bottleneck width, C classes.
"""

from mindspore import Parameter, nn, ops

from ms_biaten.normalisation import BatchNorm
from ms_biaten.quick import affine


def weight_norm(weight_v, weight_g):
    """Each row of weight_v (C,D), scaled to the length weight_g (C,1)."""
    return weight_v * (weight_g / ops.sqrt(ops.square(weight_v).sum(1, keepdims=True)))


class WeightNormLinear(nn.Cell):
    """The classifier while it is trained; `spec.weights.fold_weight_norm` freezes it."""

    def __init__(self, width, classes):
        super().__init__()
        self.weight_v = Parameter(ops.zeros((classes, width)))
        self.weight_g = Parameter(ops.zeros((classes, 1)))
        self.bias = Parameter(ops.zeros((classes,)))

    def construct(self, phi):
        return ops.matmul(phi, weight_norm(self.weight_v, self.weight_g).T) + self.bias


class Bottlenecks(nn.Cell):
    """raw (B,N,R) -> phi (B,N,D): a linear layer and batch normalisation for every source."""

    def __init__(self, sizes):
        super().__init__()
        self.sources, self.width = sizes.sources, sizes.width
        self.weight = Parameter(ops.zeros((sizes.sources, sizes.raw, sizes.width)))
        self.bias = Parameter(ops.zeros((sizes.sources, 1, sizes.width)))
        # One layer over N*D channels: channels are independent, so it equals N layers over D.
        # MindSpore's momentum is the share that is kept: 0.9 is PyTorch's 0.1.
        self.norm = BatchNorm(sizes.sources * sizes.width, eps=1e-5, momentum=0.9)

    def linear(self, raw):
        """Before normalisation, sources side by side: (B, N*D)."""
        z = affine(raw.swapaxes(0, 1), self.weight, self.bias)  # (N,B,D)
        return z.swapaxes(0, 1).reshape(raw.shape[0], self.sources * self.width)

    def construct(self, raw):
        return self.norm(self.linear(raw)).reshape(-1, self.sources, self.width)


class Classifiers(nn.Cell):
    """Frozen, weight normalisation folded: weight (N,D,C), bias (N,C); used by `attention`."""

    def __init__(self, sizes):
        super().__init__()
        self.weight = Parameter(
            ops.zeros((sizes.sources, sizes.width, sizes.classes)), requires_grad=False
        )
        self.bias = Parameter(ops.zeros((sizes.sources, sizes.classes)), requires_grad=False)
