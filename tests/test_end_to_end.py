"""`train.trainable=backbone`: Eq. (18) with backbones that are trained, too, from images."""

import importlib

import numpy as np
import pytest
from safetensors.numpy import load_file

from ms_biaten.cli import main as ms_main
from ms_biaten.spec.image_bank import ImageBank
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.target import open_target
from tests.conftest import results
from tests.thin_runs import MAINS

DECISION = {"method.name": "decision"}
PACKAGES = {"mindspore": "ms_biaten", "torch": "torch_ref"}
LIVE = ["train", "--config", "own", "--target", "clay", "--no-report", "--method", "decision"]
SETTINGS = [
    "method.weights=aten",
    "train.trainable=backbone",
    "data.bank=bank",
    "run.mode=pynative",
]
SETTINGS += ["data.images=clay", "train.epochs=2", "train.batch_size=9", "attention.width=8"]
LIVE += [part for setting in SETTINGS for part in ("--set", setting)]


def checkpoint(run):
    return load_file(run / "checkpoints/last.safetensors")


def test_backbones_move_slower_than_the_rest(at, tmp_path):
    """They move, by their share of the rate; with a share of 0 not at all."""
    moved = {}
    for share in ("0.1", "0.0"):
        out = tmp_path / share
        given = ["--set", f"train.backbone_scale={share}", "--output", str(out)]
        assert ms_main([*LIVE, *given]) == 0
        state = checkpoint(out)
        start = load_file(at / "sources/ink.backbone.safetensors")
        moved[share] = max(
            np.abs(state[f"backbones.0.{n}"] - a).max() for n, a in start.items() if "conv" in n
        )
        heads = load_file(at / "bank/heads/ink.safetensors")["bottleneck.weight"]
        assert np.abs(state["model.bottlenecks.weight"][0].T - heads).max() > 1e-4
    assert moved["0.1"] > 1e-5
    assert moved["0.0"] == 0


def test_statistics_follow_the_target(at, tmp_path):
    assert ms_main([*LIVE, "--output", str(tmp_path / "run")]) == 0
    name = "bn1.running_mean"
    start = load_file(at / "sources/ink.backbone.safetensors")[name]
    assert np.abs(checkpoint(tmp_path / "run")[f"backbones.0.{name}"] - start).max() > 1e-3


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("framework", MAINS)
def test_a_stopped_run_goes_on_to_the_same_bits(at, tmp_path, monkeypatch, framework):
    main = MAINS[framework]
    assert main([*LIVE, "--output", str(tmp_path / "whole")]) == 0
    engine = importlib.import_module(f"{PACKAGES[framework]}.engine").Engine
    original, count = engine.step, iter(range(100))

    def step(self, *arguments):
        if next(count) == 3:  # in the second epoch
            raise StoppedError
        return original(self, *arguments)

    broken = str(tmp_path / "broken")
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(engine, "step", step)
        main([*LIVE, "--output", broken])
    assert main(["train", "--resume", broken, "--no-report"]) == 0
    whole, again = checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "broken")
    assert whole.keys() == again.keys()
    assert all((whole[name] == again[name]).all() for name in whole)


def test_every_epoch_draws_anew_and_the_same_again(at):
    config = load_config("own", target="clay", overrides=SETTINGS, settings=DECISION)
    bank = open_target(config).bank
    assert isinstance(bank, ImageBank)
    order = [np.array([3, 1, 4])]

    def drawn(epoch):
        ((rows, images),) = bank.batches(order, epoch)
        assert rows.tolist() == [3, 1, 4]
        assert images.shape == (3, 3, 32, 32)
        return images

    assert (drawn(0) == drawn(0)).all()
    assert (drawn(0) != drawn(1)).any()


def test_controls_stay_on_features(at, tmp_path):
    """Eq. (17)'s methods beside an end-to-end run: from the bank, as always."""
    given = ["--controls", "--set", "train.epochs=1", "--output", str(tmp_path / "run")]
    assert ms_main([*LIVE, *given]) == 0
    final = results(tmp_path / "run/controls/uniform")[-1]
    assert final["kind"] == "final"


def test_half_precision_trains(at, tmp_path):
    assert ms_main([*LIVE, "--output", str(tmp_path / "full")]) == 0
    half = ["--precision", "fp16", "--output", str(tmp_path / "half")]
    assert ms_main([*LIVE, *half]) == 0
    full, half = (results(tmp_path / name)[-2]["loss"] for name in ("full", "half"))
    assert half == pytest.approx(full, abs=0.02)
    assert half != full


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--set", "data.images=''"], "data.images: not set"),
        (["--set", "data.images=sources"], "no image at sources/"),
        (["--method", "bi_aten"], "train.trainable: backbone is for shot, decision, caida, date"),
        (["--set", "data.models=bank"], "bank: no trained source 'ink'"),
        (["--set", "train.backbone_scale=-1"], "train.backbone_scale: must not be negative"),
    ],
)
def test_a_mistake_is_one_line(at, tmp_path, capsys, given, message):
    assert ms_main([*LIVE, *given, "--output", str(tmp_path / "run")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "run").exists()  # so that the mended command can have its place


def test_features_made_in_memory_have_no_images(folder, capsys):
    asked = ["train", "--config", "debug", "--method", "decision", "--no-report"]
    assert ms_main([*asked, "--set", "train.trainable=backbone"]) == 2
    assert "were not made from images" in capsys.readouterr().err


@pytest.mark.parametrize("framework", MAINS)
def test_what_is_not_finite_is_told_with_its_images(at, tmp_path, capsys, framework):
    """A step too large: seen in the next batch, or in the target after it.

    There PyTorch's features overflow, MindSpore's only the outputs that are made of them.
    """
    fast = ["--set", "train.lr=1e30", "--set", "train.clip_norm=0"]
    for size, told in (
        ("9", "ce became nan"),
        ("18", "are not finite for 18 of 18 samples ('bar/00.png'"),
    ):
        place = tmp_path / size
        given = [*LIVE, *fast, "--set", f"train.batch_size={size}", "--output", str(place)]
        assert MAINS[framework](given) == 1
        assert told in capsys.readouterr().err
        assert (place / "stopped.json").is_file()
