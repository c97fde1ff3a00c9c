"""Source training in both frameworks: steps, optimisers, states, stochastic depth."""

import importlib
from argparse import Namespace

import numpy as np
import pytest

from ms_biaten.backbones.stochastic_depth import DropPath, draw_depth
from ms_biaten.optimizers import AdamW
from ms_biaten.runtime import Graph
from ms_biaten.spec.config import Config, Run
from ms_biaten.spec.source_training import initial_heads
from parity_tests.backbones import THIN
from parity_tests.harness import MODES, PACKAGES, error, ms, torch
from parity_tests.tiny import BATCH_STATISTICS, LIMIT, TINY, backend
from tests.test_backbones import SWIN, scrambled
from torch_ref.backbones import make_backbone
from torch_ref.importers import save_backbone as write_backbone

SMALL = {"swin": (SWIN, {**TINY, "image_size": 32}), "resnet": ("resnet50", THIN)}


def blocks(rng, count):
    """Images that differ at large: mean features of mere noise are alike, and their differences,
    which batch normalisation blows up, are rounding."""
    coarse = rng.normal(size=(count, 3, 4, 4)) * rng.uniform(0.5, 3, (count, 1, 1, 1))
    return np.kron(coarse, np.ones((8, 8))).astype(np.float32)


def train_source(framework, name, options, weights, optimizer, mode, steps=4):
    """Losses and all state after a few steps on random images."""
    own = backend(framework)
    config = Config(run=Run(mode=mode))
    backbone = own.make_backbone(name, weights=weights, **options)
    rate = {"sgd": 0.01, "adamw": 1e-3}[optimizer]
    settings = {"lr": rate, "backbone_scale": 0.1, "weight_decay": 0.01, "label_smoothing": 0.1}
    asked = Namespace(optimizer=optimizer, seed=0, batch=6, **settings)
    heads = initial_heads(own.width_of(backbone), 7, 5, 0)
    trainer = own.Trainer(backbone, heads, asked, config)
    rng = np.random.default_rng(1)
    trainer.begin_epoch(0)
    losses = []
    for step in range(steps):
        images = blocks(rng, 6)
        labels = rng.integers(0, 5, 6).astype(np.int32)
        losses.append(trainer.step(images, labels, 1 / (1 + step)))
    return {"losses": np.array(losses), "logits": trainer.logits(images), **trainer.state()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_pretraining(optimizer, mode, tmp_path):
    name, options = SMALL["swin"]
    torch.manual_seed(0)
    weights = save_backbone(tmp_path, name, options)
    ours, theirs = (
        train_source(framework, name, options, weights, optimizer, mode) for framework in PACKAGES
    )
    assert ours.keys() == theirs.keys()
    assert error(ours["losses"], theirs["losses"]) <= LIMIT
    if optimizer == "sgd":  # AdamW makes a whole step of a gradient that is nothing but rounding
        errors = {key: error(ours[key], theirs[key]) for key in ours}
        worst = max(errors, key=errors.get)
        assert errors[worst] <= BATCH_STATISTICS, (worst, errors[worst])
    start = initial_heads(192, 7, 5, 0)["fc.weight_v"]
    assert np.abs(ours["fc.weight_v"] - start).max() > 10 * BATCH_STATISTICS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Sgd", {"weight_decay": 0.01, "momentum": 0.9, "nesterov": True}),
        ("Sgd", {"weight_decay": 0.01, "momentum": 0.9, "nesterov": False}),
        ("Sgd", {"weight_decay": 0.0, "momentum": 0.0, "nesterov": False}),
        ("AdamW", {"weight_decay": 0.05}),
    ],
)
def test_optimizers_are_pytorchs(kind, settings, mode):
    """The same gradients and rates for six steps: the same parameters, and the same state.

    SGD takes a factor of the gradients, as from clipping, beside them.
    """
    rng = np.random.default_rng(0)
    start = {n: rng.normal(size=(5, 7)).astype(np.float32) for n in ("a.gamma", "b.weight")}
    ours = [ms.Parameter(ms.Tensor(array), name) for name, array in start.items()]
    theirs = [torch.nn.Parameter(torch.from_numpy(array.copy())) for array in start.values()]
    optimizer = getattr(importlib.import_module("ms_biaten.optimizers"), kind)(ours, **settings)
    mirror = getattr(torch.optim, kind if kind == "AdamW" else "SGD")(theirs, lr=1.0, **settings)
    step = Graph(stepper(optimizer)) if mode == "graph" else stepper(optimizer)
    for count in range(6):
        gradients = [rng.normal(size=(5, 7)).astype(np.float32) for _ in ours]
        rate, factor = 0.1 / (1 + count), (1.0, 0.03, 0.5)[count % 3] if kind == "Sgd" else 1.0
        numbers = (ms.Tensor(x, ms.float32) for x in (rate, factor))
        step(*(ms.Tensor(g) for g in gradients), *numbers)
        mirror.param_groups[0]["lr"] = rate
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = torch.from_numpy(factor * gradient).float()
        mirror.step()
    for one, other in zip(ours, theirs, strict=True):
        assert error(one.asnumpy(), other.detach().numpy()) <= 1e-6
    assert len(optimizer.state()) == {"Sgd": 2, "AdamW": 6}[kind]
    if kind == "Sgd" and settings["momentum"]:
        optimizer.settle()
        for (_, _, one), parameter in zip(optimizer.state(), theirs, strict=True):
            other = mirror.state[parameter]["momentum_buffer"].numpy()
            assert error(one.asnumpy(), other) <= 1e-6


def stepper(optimizer):
    step = optimizer.step

    if isinstance(optimizer, AdamW):

        def apply(first, second, rate, factor):
            step([first, second], rate)
    else:

        def apply(first, second, rate, factor):
            step([first, second], rate, factor)

    return apply


def save_backbone(folder, name, options):
    model = scrambled(make_backbone(name, **options))
    shift = model.state_dict().get("norm.bias")
    if shift is not None:
        # All samples share it: behind batch statistics it cancels, but for its rounding.
        shift.zero_()
    write_backbone(folder / "start.safetensors", name, model)
    return folder / "start.safetensors"


def test_one_framework_goes_on_with_the_others_pretraining(tmp_path):
    """The state on disk has the same names and meaning in both."""
    name, options = SMALL["resnet"]
    weights = save_backbone(tmp_path, name, options)
    for optimizer in ("sgd", "adamw"):
        states = {
            framework: train_source(framework, name, options, weights, optimizer, "pynative", 1)
            for framework in PACKAGES
        }
        shapes = [{k: a.shape for k, a in state.items()} for state in states.values()]
        assert shapes[0] == shapes[1]
        for framework, other in (("mindspore", "torch"), ("torch", "mindspore")):
            own = backend(framework)
            asked = Namespace(optimizer=optimizer, seed=0, batch=6, lr=0.1, backbone_scale=1.0)
            asked.weight_decay = asked.label_smoothing = 0.0
            backbone = own.make_backbone(name, weights=weights, **options)
            heads = initial_heads(own.width_of(backbone), 7, 5, 3)
            trainer = own.Trainer(backbone, heads, asked, Config(run=Run(mode="pynative")))
            state = {k: a for k, a in states[other].items() if k not in ("losses", "logits")}
            trainer.load(state)
            again = trainer.state()
            assert {k: a.shape for k, a in again.items()} == {k: a.shape for k, a in state.items()}
            assert all((again[k] == state[k]).all() for k in state)


def test_stochastic_depth_has_timms_rates():
    depths = {"depths": [2, 1, 3, 1], "drop_path_rate": 0.3}
    options = {**TINY, **depths, "image_size": 32}
    theirs = make_backbone(SWIN, **options)
    ours = dict(backend("mindspore").make_backbone(SWIN, **options).cells_and_names())
    rates = {n: m.drop_prob for n, m in theirs.named_modules() if hasattr(m, "drop_prob")}
    made = {n: cell.rate for n, cell in ours.items() if isinstance(cell, DropPath)}
    assert len(rates) == 12  # none where the rate is 0
    assert made == pytest.approx(rates, abs=1e-7)


def test_stochastic_depth_leaves_branches_out():
    """With a rate of nearly 1 every branch of the last block goes, for every sample."""
    options = {**TINY, "depths": [1, 1, 1, 1], "drop_path_rate": 0.999, "image_size": 32}
    model = backend("mindspore").make_backbone(SWIN, **options).set_train(True)
    images = ms.Tensor(blocks(np.random.default_rng(0), 3))
    before = model(images).asnumpy()
    draw_depth(model, 5, np.random.default_rng(0))  # drawn for more samples than there are
    after = model(images).asnumpy()
    assert np.abs(after - before).max() > 1e-3
    last = dict(model.cells_and_names())["layers.3.blocks.0.mlp.fc2"]
    last.weight.set_data(last.weight * 2)
    assert (model(images).asnumpy() == after).all()  # left out: its weights do not matter
    model.set_train(False)
    assert np.abs(model(images).asnumpy() - after).max() > 1e-3
