"""From images on: pre-training, extraction and end-to-end adaptation in both frameworks."""

import importlib
import json
from argparse import Namespace

import numpy as np
import pytest

import ms_biaten.cli
import torch_ref.cli
from ms_biaten.backbones.stochastic_depth import DropPath, draw_depth
from ms_biaten.backbones.weights import parameters_of
from ms_biaten.spec.algorithm import take_survey
from ms_biaten.spec.bank import load_bank
from ms_biaten.spec.config import Config, Run
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.methods import initial_arrays
from ms_biaten.spec.schedules import epoch_batches
from ms_biaten.spec.source_training import initial_heads
from ms_biaten.spec.target import open_target
from ms_biaten.spec.weights import stack_sources
from parity_tests.backbones import LITE0, THIN
from parity_tests.harness import MODES, PACKAGES, error, ms, torch
from tests.conftest import results
from tests.pictures import CLASSES, draw_class
from tests.test_backbones import SWIN, scrambled
from torch_ref.backbones import arrays_of, make_backbone

LIMIT = 1e-5
TINY = {"embed_dim": 24, "depths": [1, 1, 2, 1], "num_heads": [1, 2, 2, 2], "window_size": 2}
TINY |= {"drop_path_rate": 0.0}  # drawn by each framework in its own way
MAINS = {"mindspore": ms_biaten.cli.main, "torch": torch_ref.cli.main}
MODEL = ["--backbone", SWIN, "--resize", "40", "--crop", "32"]
for option, value in TINY.items():
    MODEL += ["--backbone-set", f"{option}={value}"]


def backend(framework):
    return importlib.import_module(f"{PACKAGES[framework]}.backend")


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """Pictures in three styles, and sources trained on two of them."""
    place = tmp_path_factory.mktemp("studio")
    for style in ("ink", "chalk", "clay"):
        draw_class(place / style, style)
    (place / "classes.txt").write_text("\n".join(CLASSES))
    quick = ["--epochs", "6", "--batch", "8", "--width", "16", "--optimizer", "adamw"]
    quick += ["--lr", "1e-3", "--output", "sources", "--labelled"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for domain in ("ink", "chalk"):
            command = ["pretrain", *MODEL, *quick, "--domain", domain, "--images", domain]
            assert MAINS["torch"](command) == 0
    return place


# -- pre-training ----------------------------------------------------------------------------------

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


# Behind batch statistics of six samples, gradients are rounded to about 5e-5 in both frameworks.
BATCH_STATISTICS = 1e-4


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
    assert error(ours["losses"], theirs["losses"]) <= {"sgd": LIMIT, "adamw": 1e-4}[optimizer]
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
    """The same gradients and rates for six steps: the same parameters, and the same state."""
    rng = np.random.default_rng(0)
    start = {n: rng.normal(size=(5, 7)).astype(np.float32) for n in ("a.gamma", "b.weight")}
    ours = [ms.Parameter(ms.Tensor(array), name) for name, array in start.items()]
    theirs = [torch.nn.Parameter(torch.from_numpy(array.copy())) for array in start.values()]
    optimizer = getattr(importlib.import_module("ms_biaten.optimizers"), kind)(ours, **settings)
    mirror = getattr(torch.optim, kind if kind == "AdamW" else "SGD")(theirs, lr=1.0, **settings)
    step = ms.jit(stepper(optimizer)) if mode == "graph" else stepper(optimizer)
    for count in range(6):
        gradients = [rng.normal(size=(5, 7)).astype(np.float32) for _ in ours]
        rate = 0.1 / (1 + count)
        step(*(ms.Tensor(g) for g in gradients), ms.Tensor(rate, ms.float32))
        mirror.param_groups[0]["lr"] = rate
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = torch.from_numpy(gradient)
        mirror.step()
    for one, other in zip(ours, theirs, strict=True):
        assert error(one.asnumpy(), other.detach().numpy()) <= 1e-6
    assert len(optimizer.state()) == {"Sgd": 2, "AdamW": 6}[kind]


def stepper(optimizer):
    step = optimizer.step

    def apply(first, second, rate):
        step([first, second], rate)

    return apply


def save_backbone(folder, name, options):
    from torch_ref.importers import save_backbone as save

    save(folder / "start.safetensors", name, scrambled(make_backbone(name, **options)))
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


# -- extraction ------------------------------------------------------------------------------------


def test_the_same_bank(studio, tmp_path, monkeypatch):
    """Equal manifests but for the features' own checksums, and the same adaptation."""
    monkeypatch.chdir(studio)
    command = ["extract", *MODEL, "--source", "ink=sources", "--source", "chalk=sources"]
    command += ["--images", "clay", "--labelled", "--classes", "classes.txt", "--target", "clay"]
    command += ["--views", "center", "drawn", "--batch", "10"]
    manifests, accuracies = [], []
    for framework, main in MAINS.items():
        bank = tmp_path / framework / "bank"
        assert main([*command, "--output", str(bank)]) == 0
        manifest = json.loads((bank / "manifest.json").read_text())
        manifests.append({**manifest, "views": sorted(manifest["views"])})
        run = ["--config", "own", "--target", "clay", "--set", f"data.bank={bank}", "--no-report"]
        run += ["--set", "attention.width=8", "--set", "train.epochs=2"]
        assert main(["train", *run, "--output", str(tmp_path / framework / "run")]) == 0
        accuracies.append(results(tmp_path / framework / "run")[-1]["accuracy"])
    assert manifests[0] == manifests[1]
    assert accuracies[0] == accuracies[1]
    for view in ("center", "drawn"):
        ours, theirs = (load_bank(tmp_path / f / "bank", view).features for f in MAINS)
        assert ours.std() > 0.1
        assert error(ours, theirs) <= LIMIT
    for domain in ("ink", "chalk"):
        one, other = (
            (tmp_path / f / f"bank/heads/{domain}.safetensors").read_bytes() for f in MAINS
        )
        assert one == other


# -- end to end ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bank(studio):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(studio)
        command = ["extract", *MODEL, "--source", "ink=sources", "--source", "chalk=sources"]
        command += ["--images", "clay", "--labelled", "--target", "clay", "--output", "bank"]
        assert MAINS["torch"](command) == 0
    return studio / "bank"


def follow_images(framework, bank, method, overrides, mode):
    """A few steps from images: losses, weights of the sources, and all state."""
    settings = [f"data.bank={bank}", f"data.images={bank.parent / 'clay'}", "data.workers=0"]
    settings += ["train.trainable=backbone", "attention.width=8", "train.batch_size=13"]
    settings += ["train.lr=0.002", f"run.mode={mode}", "run.image_batch=20", *overrides]
    config = load_config("own", target="clay", overrides=settings, settings={"method.name": method})
    target = open_target(config)
    own = backend(framework)
    arrays = {**stack_sources(target.heads), **initial_arrays(config, target.sizes)}
    engine = own.make_engine(config, target.sizes, arrays, target.backbones(config, own))
    target.bank.refresh(engine.extract)
    rows = {"start features": target.bank.features.copy()}
    take_survey(engine, target.bank, 20)  # DATE measures its prior here
    memory = engine.relabel(target.bank, 20, 0)
    order = list(epoch_batches(0, 0, len(target.bank), 13))[:2]
    engine.begin_epoch(0)
    for step, (batch, images) in enumerate(target.bank.batches(order, 0)):
        record = engine.step(images, memory[batch], 0.002, True)
        rows |= {f"{step} {k}": record[k] for k in ("loss", "beta", "y", "grad_norm", "labels")}
    target.bank.refresh(engine.extract)
    return {**rows, "end features": target.bank.features.copy(), **engine.state()}


@pytest.mark.parametrize(
    ("method", "weights", "mode"),
    [
        ("decision", "aten", "graph"),
        ("decision", "aten", "pynative"),
        ("caida", "native", "pynative"),
        ("date", "native", "pynative"),
        ("shot", "native", "pynative"),
    ],
)
def test_end_to_end(bank, method, weights, mode):
    """Eq. (18): gradients reach the backbones, and both frameworks agree on where they lead."""
    overrides = [f"method.weights={weights}"]
    ours = follow_images("mindspore", bank, method, overrides, mode)
    theirs = follow_images("torch", bank, method, overrides, mode)
    assert ours.keys() == theirs.keys()
    errors = {name: error(ours[name], theirs[name]) for name in ours}
    worst = max(errors, key=errors.get)
    assert errors[worst] <= BATCH_STATISTICS, (worst, errors[worst])
    moved = np.abs(theirs["end features"] - theirs["start features"]).max()
    assert moved > 100 * LIMIT
    trained = {n for n in ours if n.startswith("momentum.backbones.1.")}
    names = arrays_of(make_backbone(SWIN, image_size=32, **TINY))
    assert {n.removeprefix("momentum.backbones.1.") for n in trained} == set(names)


# -- the embedded backbone ------------------------------------------------------------------------


def test_lite0_predicts_imagenet_as_timm_does():
    """Its real classifier on both frameworks' features of photographs: the same five classes."""
    from parity_tests.test_backbones import photographs
    from torch_ref.checkpoints import read_checkpoint
    from torch_ref.lite0 import lite0_weights
    from torch_ref.torchvision_shim import import_timm

    stored = read_checkpoint(lite0_weights())
    weight, bias = stored["_fc.weight"], stored["_fc.bias"]
    mirror = make_backbone(LITE0, weights=lite0_weights())
    whole = import_timm().create_model(LITE0, num_classes=1000)
    classifier = {"classifier.weight": weight, "classifier.bias": bias}
    state = {**arrays_of(mirror), **classifier}
    loaded = whole.load_state_dict({k: torch.from_numpy(a) for k, a in state.items()}, strict=False)
    assert all(name.endswith("num_batches_tracked") for name in loaded.missing_keys)
    ours = backend("mindspore").make_backbone(LITE0)
    for name, parameter in parameters_of(ours).items():
        parameter.set_data(ms.Tensor(arrays_of(mirror)[name]))
    images = photographs()
    see = backend("mindspore").Extractor([ours], Config(run=Run(mode="pynative")))
    logits = see(images)[:, 0] @ weight.T + bias
    with torch.no_grad():
        expected = whole.eval()(torch.from_numpy(images)).numpy()
    assert error(logits, expected) <= LIMIT
    assert (np.argsort(-logits)[:, :5] == np.argsort(-expected)[:, :5]).all()
    assert logits.argmax(1)[0] == 652  # "military uniform": Grace Hopper's
