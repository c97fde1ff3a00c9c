"""Modules with converted weights: outputs and gradients of all trained parameters."""

import mindspore as ms
import numpy as np
import pytest
import torch

import ms_biaten.heads
import torch_ref.heads
from ms_biaten.joined import apart
from ms_biaten.runtime import Graph
from ms_biaten.spec.debug import debug_source
from ms_biaten.spec.profiles import PROFILES
from ms_biaten.spec.shapes import Sizes
from ms_biaten.spec.weights import fold_weight_norm, stack_sources, torch_name
from parity_tests import oracle
from parity_tests.cases import TOLERANCE
from parity_tests.harness import MODES, error, worst
from parity_tests.trajectory import make_adapter, small_bank, trajectory_config

LIMIT = TOLERANCE["float32"]


def batch(bank, size=29):
    return bank.rows(np.arange(size))


def weighted(outputs, multiply):
    """The outputs under random cotangents, in one number."""
    rng = np.random.default_rng(1)
    return sum(multiply(o, rng.normal(size=tuple(o.shape)).astype(np.float32)) for o in outputs)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("method", ["bi_aten", "aten", "uniform"])
@pytest.mark.parametrize("profile", PROFILES)
def test_model(profile, method, training):
    bank = small_bank()
    config = trajectory_config(profile, (f"method={method}", "run.mode=pynative"))
    ours, theirs = (make_adapter(name, config, bank) for name in ("mindspore", "torch"))
    raw = batch(bank)
    ours.model.set_train(training)
    theirs.model.train(training)

    def total(x, learned):
        outputs = ours.model(x, learned)
        return weighted(outputs, lambda o, w: (o * ms.Tensor(w)).sum()), outputs

    parameters = list(ours.trained.values())
    differentiate = ms.value_and_grad(total, None, parameters, has_aux=True)
    (_, our_outputs), gradients = differentiate(ms.Tensor(raw), ms.Tensor(0.3, ms.float32))
    named = {torch_name(p.name): g for p, g in zip(parameters, gradients, strict=True)}
    our_gradients = {name: gradient.asnumpy() for name, gradient in apart(named).items()}
    their_outputs = theirs.model(torch.from_numpy(raw), 0.3)
    loss = weighted(their_outputs, lambda o, w: (o * torch.from_numpy(w)).sum())
    parameters = list(theirs.trained.values())
    their_gradients = dict(
        zip(
            theirs.trained,
            torch.autograd.grad(loss, parameters, materialize_grads=True),
            strict=True,
        )
    )
    our_outputs = [o.asnumpy() for o in our_outputs]
    assert worst(our_outputs, [o.detach().numpy() for o in their_outputs]) <= LIMIT
    assert our_gradients.keys() == their_gradients.keys()
    their_gradients = {name: gradient.numpy() for name, gradient in their_gradients.items()}
    if training:
        # Batch normalisation takes the bias out again: its gradient is zero, and what is left is
        # the rounding of a sum whose terms are as large as the gradient of the weight.
        rest = [side.pop("model.bottlenecks.bias") for side in (our_gradients, their_gradients)]
        size = np.abs(their_gradients["model.bottlenecks.weight"]).max()
        assert max(np.abs(gradient).max() for gradient in rest) <= LIMIT * size
    for name, gradient in their_gradients.items():
        assert error(our_gradients[name], gradient) <= LIMIT, name
    if not training:
        assert worst(our_outputs, oracle_model(config, theirs, raw, 0.3)) <= LIMIT


def oracle_model(config, adapter, raw, learned):
    """The whole model from the oracle's functions, evaluation mode."""
    w = {n.removeprefix("model."): t.double().numpy() for n, t in adapter.weights().items()}
    z = np.einsum("bir,ird->bid", raw.astype(float), w["bottlenecks.weight"])
    z = (z + w["bottlenecks.bias"][:, 0]).reshape(len(raw), -1)
    norm = {
        k: w[f"bottlenecks.norm.{k}"] for k in ("weight", "bias", "running_mean", "running_var")
    }
    phi = (z - norm["running_mean"]) / np.sqrt(norm["running_var"] + 1e-5)
    phi = (phi * norm["weight"] + norm["bias"]).reshape(len(raw), raw.shape[1], -1)
    own = oracle.own_outputs(phi, w["classifiers.weight"], w["classifiers.bias"])
    eye = np.broadcast_to(np.eye(raw.shape[1]), (len(raw), raw.shape[1], raw.shape[1]))
    if config.method.name == "uniform":
        beta = np.full(raw.shape[:2], 1 / raw.shape[1])
        return phi, own, own, eye, beta, oracle.ensemble(beta, own)

    def linear(name):
        return w[f"attention.{name}.weight"], w[f"attention.{name}.bias"], config.attention.heads

    choice = config.attention.temperature, oracle.HEADS[config.profile.heads]
    keys = oracle.feature_keys(phi, *linear("feature"))
    beta = oracle.inter_weights(oracle.joint_query(phi, *linear("query")), keys, *choice)
    if config.method.name == "aten":
        return phi, own, own, eye, beta, oracle.ensemble(beta, own)
    cross = oracle.cross_outputs(phi, w["classifiers.weight"], w["classifiers.bias"])
    out_keys = oracle.output_keys(cross, *linear("output"))
    alpha = oracle.intra_weights(oracle.intra_similarity(keys, out_keys), *choice)
    assembled = oracle.assemble(alpha, cross)
    y = oracle.ensemble(beta, learned * assembled + (1 - learned) * own)
    return phi, own, assembled, alpha, beta, y


@pytest.mark.parametrize("mode", MODES)
def test_bottlenecks_equal_one_layer_per_source(mode):
    """Stacked bottlenecks against N plain torch modules, over 5 training batches and an eval."""
    bank = small_bank()
    adapter = make_adapter("mindspore", trajectory_config(), bank)
    cell = adapter.model.bottlenecks
    plain = []
    for domain in bank.domains:
        head = {n: torch.from_numpy(a) for n, a in debug_source(domain).items()}
        linear = torch.nn.Linear(*reversed(head["bottleneck.weight"].shape))
        linear.load_state_dict({k: head[f"bottleneck.{k}"] for k in ("weight", "bias")})
        norm = torch.nn.BatchNorm1d(linear.out_features)
        norm.load_state_dict(
            {k: head[f"bn.{k}"] for k in ("weight", "bias", "running_mean", "running_var")},
            strict=False,
        )
        plain.append(torch.nn.Sequential(linear, norm))

    def separately(raw):
        raw = torch.from_numpy(raw)
        return torch.stack([m(raw[:, i]) for i, m in enumerate(plain)], 1).detach().numpy()

    # As in the adapter: the two modes are two compiled functions.
    train, evaluate = ((Graph(cell_call(cell)) if mode == "graph" else cell) for _ in range(2))
    for start in range(0, 150, 30):
        raw = bank.rows(np.arange(start, start + 30))
        cell.set_train(True)
        assert error(train(ms.Tensor(raw)).asnumpy(), separately(raw)) <= LIMIT
    cell.set_train(False)
    for module in plain:
        module.eval()
    raw = batch(bank)
    assert error(evaluate(ms.Tensor(raw)).asnumpy(), separately(raw)) <= LIMIT
    variances = np.concatenate([m[1].running_var.numpy() for m in plain])
    assert error(cell.norm.moving_variance.asnumpy(), variances) <= LIMIT


def cell_call(cell):
    def call(raw):
        return cell(raw)

    return call


def test_weight_norm_linear():
    """Ours, torch's own parametrisation, and the folded form are one function."""
    rng = np.random.default_rng(2)
    v, g, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((11, 5), (11, 1), (11,)))
    phi = rng.normal(size=(7, 5)).astype(np.float32)
    cell = ms_biaten.heads.WeightNormLinear(5, 11)
    module = torch_ref.heads.WeightNormLinear(5, 11)
    builtin = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(5, 11))
    with torch.no_grad():
        for name, array in (("weight_v", v), ("weight_g", g), ("bias", bias)):
            getattr(cell, name).set_data(ms.Tensor(array))
            getattr(module, name).copy_(torch.from_numpy(array))
        builtin.parametrizations.weight.original0.copy_(torch.from_numpy(g))
        builtin.parametrizations.weight.original1.copy_(torch.from_numpy(v))
        builtin.bias.copy_(torch.from_numpy(bias))
    expected = builtin(torch.from_numpy(phi)).detach().numpy()
    assert error(cell(ms.Tensor(phi)).asnumpy(), expected) <= LIMIT
    assert error(module(torch.from_numpy(phi)).detach().numpy(), expected) <= LIMIT
    assert error(phi @ fold_weight_norm(v, g).T + bias, expected) <= LIMIT


def test_reestimated_statistics():
    bank = small_bank()
    config = trajectory_config("paper", ("method=bn_only", "run.mode=pynative"))
    results = []
    for framework in ("mindspore", "torch"):
        adapter = make_adapter(framework, config, bank)
        adapter.reestimate(bank, config.run.eval_batch)
        weights = {
            n: np.array(t.asnumpy() if framework == "mindspore" else t.numpy())
            for n, t in adapter.weights().items()
        }
        results.append([weights[f"model.bottlenecks.norm.running_{k}"] for k in ("mean", "var")])
    heads = stack_sources(debug_source(domain) for domain in bank.domains)
    z = np.einsum("bir,ird->bid", bank.features.astype(float), heads["bottlenecks.weight"])
    z = (z + heads["bottlenecks.bias"][:, 0]).reshape(len(bank), -1)
    truth = [z.mean(0), z.var(0, ddof=1)]
    assert worst(results[0], truth) <= LIMIT
    assert worst(results[1], truth) <= LIMIT


def test_sizes_name_what_they_say():
    sizes = Sizes.of(trajectory_config(), sources=3, classes=7)
    assert (sizes.raw, sizes.width, sizes.heads, sizes.embedding) == (48, 16, 4, 13)
