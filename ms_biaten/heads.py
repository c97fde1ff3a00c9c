"""The heads of all sources at once: bottlenecks k_s (trained), classifiers g_s (frozen).

Shapes: B batch, N sources, R raw width, D bottleneck width, C classes.
"""

from mindspore import Parameter, nn, ops

from ms_biaten.joined import joined_shape
from ms_biaten.normalisation import BatchNorm
from ms_biaten.quick import BATCHED_COLUMN_BY_ROW, with_one


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
        shape = (sizes.sources, sizes.raw, sizes.width)
        self.joined = Parameter(ops.zeros(joined_shape(shape)))  # its last rows are the biases
        # One layer over N*D channels: channels are independent, so it equals N layers over D. Its
        # kernel is many times quicker on (1,N*D,B,1), a channel's numbers side by side, than on
        # (B,N*D): so samples are columns from the product on.
        # MindSpore's momentum is the share that is kept: 0.9 is PyTorch's 0.1.
        self.norm = BatchNorm(sizes.sources * sizes.width, eps=1e-5, momentum=0.9)

    def linear(self, raw):
        """Before normalisation, samples as columns: (N*D, B)."""
        B, N, _ = raw.shape
        rows = with_one(ops.transpose(raw, (1, 0, 2)), (N, B, 1))
        return BATCHED_COLUMN_BY_ROW(self.joined, rows).reshape(N * self.width, B)

    def construct(self, raw):
        z = self.linear(raw)
        phi = self.norm(ops.expand_dims(ops.expand_dims(z, 0), 3))
        return ops.transpose(phi.reshape(self.sources, self.width, -1), (2, 0, 1))


class Classifiers(nn.Cell):
    """Frozen, weight normalisation folded: weight (N,D,C), bias (N,C); used by `attention`."""

    def __init__(self, sizes):
        super().__init__()
        self.weight = Parameter(
            ops.zeros((sizes.sources, sizes.width, sizes.classes)), requires_grad=False
        )
        self.bias = Parameter(ops.zeros((sizes.sources, sizes.classes)), requires_grad=False)
