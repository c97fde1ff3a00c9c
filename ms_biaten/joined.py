"""A weight and its bias in one parameter: in MindSpore, a product takes one more row for nothing,
while adding a bias is two passes over what it is added to.

Files, and whoever asks an engine for its tensors, have them apart.
"""

from mindspore import Tensor

SUFFIX = ".joined"


class Rows:
    """The weight, or the bias, in a joined tensor (...,K+1,J), as if it were one of its own."""

    def __init__(self, tensor, rows, shape):
        self.tensor, self.rows, self.shape = tensor, rows, shape

    def asnumpy(self):
        return self.tensor.asnumpy()[..., self.rows, :].reshape(self.shape)

    def set_data(self, given):
        whole = self.tensor.asnumpy().copy()
        own = whole[..., self.rows, :]
        own[...] = given.asnumpy().reshape(own.shape)
        self.tensor.set_data(Tensor.from_numpy(whole))


def joined_shape(shape):
    """Of a weight (...,K,J) and its bias."""
    return (*shape[:-2], shape[-2] + 1, shape[-1])


def apart(named):
    """Tensors by name, joined ones as a weight (...,K,J) and a bias (G,1,J) or (J,)."""
    found = {}
    for name, tensor in named.items():
        if not name.endswith(SUFFIX):
            found[name] = tensor
            continue
        *groups, rows, width = tensor.shape
        stem = name.removesuffix(SUFFIX)
        found[f"{stem}.weight"] = Rows(tensor, slice(-1), (*groups, rows - 1, width))
        bias = (*groups, 1, width) if groups else (width,)
        found[f"{stem}.bias"] = Rows(tensor, slice(-1, None), bias)
    return found
