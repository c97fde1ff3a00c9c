"""A weight and its bias in one parameter of MindSpore: the same numbers, apart for all others."""

import numpy as np
import pytest

from ms_biaten.runtime import prepare  # isort: skip  (settles MindSpore's log level)
import mindspore as ms
from mindspore import Parameter, Tensor

from ms_biaten import attention, quick
from ms_biaten.joined import apart, joined_shape
from ms_biaten.spec.config import Config

prepare(Config())
RNG = np.random.default_rng(0)
B, N, C, D, H, E = 7, 3, 11, 5, 2, 13


def drawn(*shape):
    return Tensor(RNG.normal(size=shape).astype(np.float32))


def joined(weight, bias):
    rows = bias.asnumpy().reshape(*weight.shape[:-2], 1, weight.shape[-1])
    return Tensor(np.concatenate([weight.asnumpy(), rows], -2))


def key_similarity(form):
    similarity = getattr(quick, f"{form}_similarity")
    features, outputs = drawn(N, B, H, E), drawn(N, B, N, C)
    return lambda weight, bias: similarity(features, outputs, weight, bias)


def phi_under(function):
    phi = drawn(B, N, D)
    return lambda weight, bias: function(phi, weight, bias, H)


CASES = {
    "feature_keys": (phi_under(attention.feature_keys), (N, D, H * E), (N, 1, H * E)),
    "feature_keys, shared": (phi_under(attention.feature_keys), (1, D, H * E), (1, 1, H * E)),
    "joint_query": (phi_under(attention.joint_query), (N * D, H * E), (H * E,)),
    "keyed": (key_similarity("keyed"), (N, C, H * E), (N, 1, H * E)),
    "keyless": (key_similarity("keyless"), (N, C, H * E), (N, 1, H * E)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bias_as_the_last_row_is_the_same_bias(name):
    function, shape, bias_shape = CASES[name]
    weight, bias = drawn(*shape), drawn(*bias_shape)
    both = joined(weight, bias)
    outputs = function(weight, bias)
    cotangent = drawn(*outputs.shape)
    np.testing.assert_allclose(function(both, None).asnumpy(), outputs.asnumpy(), atol=1e-5)

    by_weight, by_bias = ms.grad(lambda w, b: (function(w, b) * cotangent).sum(), (0, 1))(
        weight, bias
    )
    by_both = ms.grad(lambda w: (function(w, None) * cotangent).sum())(both).asnumpy()
    assert by_both.shape == joined_shape(shape)
    expected = joined(by_weight, by_bias).asnumpy()
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(by_both / scale, expected / scale, atol=1e-5)


@pytest.mark.parametrize("shape", [(N, 4, 6), (1, 4, 6), (4, 6)])
def test_tensors_are_named_read_and_written_apart(shape):
    whole = Parameter(drawn(*joined_shape(shape)), "x")
    other = Parameter(drawn(2), "y")
    parts = apart({"a.joined": whole, "a.gamma": other})
    assert list(parts) == ["a.weight", "a.bias", "a.gamma"]
    assert parts["a.gamma"] is other
    bias_shape = (shape[0], 1, 6) if len(shape) == 3 else (6,)
    assert (parts["a.weight"].shape, parts["a.bias"].shape) == (shape, bias_shape)

    weight, bias = drawn(*shape), drawn(*bias_shape)
    parts["a.weight"].set_data(weight)
    parts["a.bias"].set_data(bias)
    np.testing.assert_array_equal(whole.asnumpy(), joined(weight, bias).asnumpy())
    np.testing.assert_array_equal(parts["a.weight"].asnumpy(), weight.asnumpy())
    np.testing.assert_array_equal(parts["a.bias"].asnumpy(), bias.asnumpy())
