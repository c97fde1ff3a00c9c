"""From images on: extraction and end-to-end adaptation in both frameworks."""

import json

import numpy as np
import pytest

import ms_biaten.cli
import torch_ref.cli
from ms_biaten.backbones.weights import parameters_of
from ms_biaten.spec.algorithm import take_survey
from ms_biaten.spec.bank import load_bank
from ms_biaten.spec.config import Config, Run
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.methods import initial_arrays
from ms_biaten.spec.schedules import epoch_batches
from ms_biaten.spec.target import open_target
from ms_biaten.spec.weights import stack_sources
from parity_tests.backbones import LITE0
from parity_tests.harness import error, ms, torch
from parity_tests.tiny import LIMIT, TINY, backend
from tests.conftest import results
from tests.pictures import CLASSES, draw_class
from tests.test_backbones import SWIN
from torch_ref.backbones import arrays_of, make_backbone

MAINS = {"mindspore": ms_biaten.cli.main, "torch": torch_ref.cli.main}
MODEL = ["--backbone", SWIN, "--resize", "40", "--crop", "32"]
for option, value in TINY.items():
    MODEL += ["--backbone-set", f"{option}={value}"]


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
    assert errors[worst] <= LIMIT, (worst, errors[worst])
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
