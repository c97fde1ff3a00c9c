"""What must hold for any input, in both frameworks."""

import math

import mindspore as ms
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ms_biaten.attention
import ms_biaten.losses
import ms_biaten.pseudo_label
import torch_ref.attention
import torch_ref.losses
import torch_ref.pseudo_label
from ms_biaten.runtime import prepare
from ms_biaten.spec.config import Config

prepare(Config())
torch.set_num_threads(1)

ATTENTION = {"mindspore": ms_biaten.attention, "torch": torch_ref.attention}
LOSSES = {"mindspore": ms_biaten.losses, "torch": torch_ref.losses}
LABELS = {"mindspore": ms_biaten.pseudo_label, "torch": torch_ref.pseudo_label}
B, D, C, E, H = 5, 4, 6, 3, 2

frameworks = pytest.mark.parametrize("framework", ["mindspore", "torch"])
reductions = pytest.mark.parametrize("heads", ["mean_then_softmax", "softmax_then_mean"])
draws = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(2, 6)
scales = st.sampled_from([1e-4, 1.0, 1e4])


def call(framework, function, *arguments):
    """Arrays in, arrays out, whatever computes in between."""
    make = ms.Tensor if framework == "mindspore" else torch.from_numpy

    def convert(value):
        return make(value.astype(np.float32)) if isinstance(value, np.ndarray) else value

    result = function(*(convert(value) for value in arguments))
    out = [r.asnumpy() if framework == "mindspore" else r.numpy() for r in as_tuple(result)]
    return out[0] if len(out) == 1 else out


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def bounds(n):
    """Of a softmax of cosines at temperature 1."""
    return 1 / (1 + (n - 1) * math.e**2), math.e**2 / (math.e**2 + n - 1)


def test_bounds_are_the_papers():
    assert bounds(5) == pytest.approx((0.0327, 0.6488), abs=1e-4)
    assert bounds(3) == pytest.approx((0.0634, 0.7870), abs=1e-4)


@frameworks
@reductions
@draws
@given(seed=seeds, n=counts, scale=scales)
def test_beta_sums_to_one_within_its_bounds(framework, heads, seed, n, scale):
    rng = np.random.default_rng(seed)
    module = ATTENTION[framework]
    query, keys = rng.normal(size=(B, H, E)) * scale, rng.normal(size=(n, B, H, E)) * scale
    beta = call(framework, module.inter_weights, query, keys, 1.0, module.HEADS[heads])
    low, high = bounds(n)
    assert beta.sum(1) == pytest.approx(np.ones(B), abs=1e-5)
    assert beta.min() >= low - 1e-5
    assert beta.max() <= high + 1e-5


@frameworks
@reductions
@draws
@given(seed=seeds, n=counts)
def test_alpha_sums_to_one_within_its_bounds(framework, heads, seed, n):
    rng = np.random.default_rng(seed)
    module = ATTENTION[framework]
    features, outputs = rng.normal(size=(n, B, H, E)), rng.normal(size=(n, B, n, H, E))
    similarity = call(framework, module.intra_similarity, features, outputs)
    alpha = call(framework, module.intra_weights, similarity, 1.0, module.HEADS[heads])
    low, high = bounds(n)
    assert alpha.sum(2) == pytest.approx(np.ones((B, n)), abs=1e-5)
    assert alpha.min() >= low - 1e-5
    assert alpha.max() <= high + 1e-5


@frameworks
def test_a_temperature_lifts_the_bound(framework):
    module = ATTENTION[framework]
    query, keys = np.ones((1, 1, 3)), np.stack([np.ones((1, 1, 3)), -np.ones((1, 1, 3))])
    reduce_heads = module.HEADS["mean_then_softmax"]
    plain = call(framework, module.inter_weights, query, keys, 1.0, reduce_heads)
    sharp = call(framework, module.inter_weights, query, keys, 0.1, reduce_heads)
    assert plain[0, 0] == pytest.approx(bounds(2)[1], abs=1e-5)
    assert sharp[0, 0] > 0.999


@frameworks
@reductions
@draws
@given(seed=seeds, n=counts)
def test_permuting_the_domains_permutes_beta(framework, heads, seed, n):
    rng = np.random.default_rng(seed)
    module = ATTENTION[framework]
    phi, order = rng.normal(size=(B, n, D)), rng.permutation(n)
    weight, bias = rng.normal(size=(n, D, H * E)), rng.normal(size=(n, 1, H * E))
    query_weight, query_bias = rng.normal(size=(n, D, H * E)), rng.normal(size=H * E)

    def beta(phi, weight, bias, query_weight):
        keys = call(framework, module.feature_keys, phi, weight, bias, H)
        joined = query_weight.reshape(n * D, H * E)
        query = call(framework, module.joint_query, phi, joined, query_bias, H)
        return call(framework, module.inter_weights, query, keys, 0.5, module.HEADS[heads])

    straight = beta(phi, weight, bias, query_weight)
    permuted = beta(phi[:, order], weight[order], bias[order], query_weight[order])
    assert permuted == pytest.approx(straight[:, order], abs=2e-5)


@frameworks
@draws
@given(seed=seeds, n=counts)
def test_one_hot_alpha_makes_bi_aten_aten(framework, seed, n):
    """The assembled outputs under a one-hot alpha are the sources' own outputs."""
    rng = np.random.default_rng(seed)
    module = ATTENTION[framework]
    phi, weight, bias = (
        rng.normal(size=(B, n, D)),
        rng.normal(size=(n, D, C)),
        rng.normal(size=(n, C)),
    )
    cross = call(framework, module.cross_outputs, phi, weight, bias)
    alpha = call(framework, module.one_hot_alpha, phi)
    assembled = call(framework, module.assemble, alpha, cross)
    own = call(framework, module.own_outputs, phi, weight, bias)
    assert assembled == pytest.approx(own, abs=1e-4)
    assert call(framework, module.assemble, alpha, cross) == pytest.approx(
        np.stack([cross[:, i, i] for i in range(n)], 1), abs=0
    )


@frameworks
@draws
@given(seed=seeds, scale=scales)
def test_im_loss_is_bounded(framework, seed, scale):
    """Between -log C, confident and diverse, and about 0, where no sample differs from the mean."""
    logits = np.random.default_rng(seed).normal(size=(B, C)) * scale
    value = float(call(framework, LOSSES[framework].im_loss, logits, 1e-5))
    assert -math.log(C) - 1e-3 <= value <= 1e-3


@frameworks
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@draws
@given(seed=seeds, n=counts)
def test_an_empty_class_is_never_a_label(framework, distance, seed, n):
    rng = np.random.default_rng(seed)
    module = LABELS[framework]
    p = rng.uniform(0.1, 1, size=(B, n, C))
    p[:, :, 2] = 0.0
    phi, beta = rng.normal(size=(B, n, D)), rng.dirichlet(np.ones(n), size=B)
    sums, mass = call(framework, module.weighted_sums, p, phi)
    mu = call(framework, module.centroids, sums, mass)
    assert np.isfinite(mu).all()
    distances = call(
        framework,
        module.class_distances,
        phi,
        beta,
        *(call(framework, part, mu) for part in (module.by_class, module.gram)),
        call(framework, module.empty_penalty, mass),
        module.LABEL_DISTANCE[distance],
    )
    assert np.isfinite(distances).all()
    assert (call(framework, module.nearest_class, distances) != 2).all()


@frameworks
def test_a_class_that_one_source_never_predicts_stays_possible(framework):
    mass = np.ones((2, 3))
    mass[0, 1] = 0.0
    assert (call(framework, LABELS[framework].empty_penalty, mass) == 0).all()


@frameworks
def test_centroids_stream(framework):
    """Sums over chunks give the centroids of the whole."""
    rng = np.random.default_rng(0)
    module = LABELS[framework]
    p, phi = rng.uniform(size=(31, 3, C)), rng.normal(size=(31, 3, D))
    parts = [
        call(framework, module.weighted_sums, p[s], phi[s]) for s in (slice(13), slice(13, 31))
    ]
    sums, mass = (sum(part[k] for part in parts) for k in range(2))
    whole = np.einsum("bic,bid->icd", p, phi) / p.sum(0)[:, :, None]
    assert call(framework, module.centroids, sums, mass) == pytest.approx(whole, abs=1e-5)
