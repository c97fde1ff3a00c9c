"""Products of matrices in single precision on a CPU, by oneDNN.

PyTorch itself asks MKL for them. On some processors oneDNN, which comes with PyTorch as well, takes
half the time (docs/scaling.md). Its product is the one that `torch.compile` puts in place of a
linear layer. It has no gradient of its own: under autograd, `Affine` has.
"""

import torch


def by_onednn(x):
    """Whether `product` may ask it; an exported graph must not hold what only a CPU has."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and not torch.compiler.is_compiling()
    )


def product(a, b, bias=None):
    """a b + bias: a (S,K), b (K,J), bias (J,)."""
    if by_onednn(a):
        # Rows apart from each other would be multiplied by its reference, hundreds of times slower.
        dense = b if b.is_contiguous() or b.T.is_contiguous() else b.contiguous()
        return torch.ops.mkldnn._linear_pointwise(a, dense.T, bias, "none", [], "")
    return a @ b if bias is None else torch.addmm(bias, a, b)


def stacked(matrices):
    """(G,S,J); one alone is not copied."""
    return matrices[0][None] if len(matrices) == 1 else torch.stack(matrices)


def products(a, b):
    """a b for each group: a (G,S,K), b (G,K,J)."""
    return stacked([product(*pair) for pair in zip(a, b, strict=True)])


class Affine(torch.autograd.Function):
    """x W + b for each group: x (G,S,K), weight (G,K,J), bias (G,1,J)."""

    @staticmethod
    def forward(context, x, weight, bias):
        context.save_for_backward(x, weight)
        groups = zip(x, weight, bias.squeeze(1), strict=True)
        return stacked([product(*group) for group in groups])

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        to_x, to_weight, to_bias = context.needs_input_grad
        return (
            products(gradient, weight.transpose(1, 2)) if to_x else None,
            products(x.transpose(1, 2), gradient) if to_weight else None,
            gradient.sum(1, keepdim=True) if to_bias else None,
        )
