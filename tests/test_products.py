"""Products by oneDNN are PyTorch's, whatever the strides, and so are their gradients."""

import pytest
import torch

from torch_ref import products
from torch_ref.quick import affine

S, K, J = 33, 70, 18


def drawn(*shape, **kind):
    """Of a size that makes products near 1."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, **kind) / K**0.25


MATRICES = {
    "dense": lambda rows, columns: drawn(rows, columns),
    "turned": lambda rows, columns: drawn(columns, rows).T,
    "rows apart": lambda rows, columns: drawn(rows, 3, columns)[:, 1],
    "turned, columns apart": lambda rows, columns: drawn(columns, 3, rows)[:, 1].T,
    "numbers apart": lambda rows, columns: drawn(rows, columns, 2)[..., 0],
}


@pytest.mark.parametrize("left", MATRICES)
@pytest.mark.parametrize("right", MATRICES)
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_product_is_the_product(left, right, with_bias):
    a, b = MATRICES[left](S, K), MATRICES[right](K, J)
    bias = drawn(J) if with_bias else None
    expected = a.double() @ b.double() + (0 if bias is None else bias.double())
    assert products.by_onednn(a)
    torch.testing.assert_close(products.product(a, b, bias).double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("trained", [(True, True, True), (False, True, False)])
def test_affine_has_the_gradients_of_baddbmm(groups, trained):
    shapes = ((groups, S, K), (groups, K, J), (groups, 1, J))
    inputs = [
        drawn(*shape).requires_grad_(wanted) for shape, wanted in zip(shapes, trained, strict=True)
    ]
    asked = [x for x in inputs if x.requires_grad]
    x, weight, bias = inputs
    cotangent = drawn(S, groups, J).transpose(0, 1)  # not dense, as it comes from a transpose
    found = affine(x, weight, bias)
    expected = torch.baddbmm(bias, x, weight)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    pairs = [torch.autograd.grad((y * cotangent).sum(), asked) for y in (found, expected)]
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_other_numbers_are_left_to_pytorch():
    a, b, bias = drawn(S, K, dtype=torch.float64), drawn(K, J).double(), drawn(J).double()
    assert not products.by_onednn(a)
    torch.testing.assert_close(products.product(a, b, bias), a @ b + bias, atol=1e-12, rtol=0)
    torch.testing.assert_close(products.product(a, b), a @ b, atol=1e-12, rtol=0)


def test_without_onednn_pytorch_multiplies(monkeypatch):
    monkeypatch.setattr(products, "by_onednn", lambda x: False)
    a, b, bias = drawn(S, K), drawn(K, J), drawn(J)
    torch.testing.assert_close(products.product(a, b, bias), torch.addmm(bias, a, b))
