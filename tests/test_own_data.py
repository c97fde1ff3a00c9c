"""From image files to predictions.csv: pretrain, extract, train, with a tiny Swin.

In both frameworks: what surrounds the computing is written once, in `spec`.
"""

import csv
import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ms_biaten.cli import main as ms_main
from ms_biaten.spec import extracting, source_training
from ms_biaten.spec.bank import load_bank
from ms_biaten.spec.config import Config, Run
from ms_biaten.spec.images import Transform, center_view, read_image
from tests.conftest import results
from tests.pictures import CLASSES, draw_class
from torch_ref.cli import main as torch_main

SWIN = "swin_tiny_patch4_window7_224"
TINY = {"embed_dim": 24, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 2], "window_size": 2}
MODEL = ["--backbone", SWIN, "--resize", "72", "--crop", "64", "--workers", "0"]
MODEL += ["--mode", "pynative", "--cpu-threads", "1"]
for option, value in TINY.items():
    MODEL += ["--backbone-set", f"{option}={value}"]
SOURCES = ["--source", "ink=sources", "--source", "chalk=sources"]
EXTRACT = ["extract", *MODEL, *SOURCES, "--images", "clay", "--classes", "classes.txt"]
EXTRACT += ["--target", "clay", "--batch", "8"]


FRAMEWORKS = {"torch": (torch_main, "torch_ref"), "mindspore": (ms_main, "ms_biaten")}


def pretrain(at, domain, *more):
    arguments = ["--domain", domain, "--images", domain, "--labelled", "--output", "sources"]
    quick = "--epochs 2 --batch 8 --width 16 --optimizer adamw --lr 1e-3".split()  # noqa: SIM905
    return at.main(["pretrain", *MODEL, *arguments, *quick, *more])


@pytest.fixture(scope="module", params=FRAMEWORKS)
def workshop(request, tmp_path_factory):
    """Three styles of pictures; a tiny Swin trained on two of them."""
    place = tmp_path_factory.mktemp("workshop")
    for style in ("ink", "chalk", "clay"):
        draw_class(place / style, style)
    (place / "classes.txt").write_text("\n".join(CLASSES))
    main, package = FRAMEWORKS[request.param]
    importers = importlib.import_module(f"{package}.importers")
    made = SimpleNamespace(
        place=place, main=main, package=package, load_source_model=importers.load_source_model
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        torch.set_num_threads(1)
        assert pretrain(made, "ink") == 0
        assert pretrain(made, "chalk") == 0
    return made


@pytest.fixture
def at(workshop, monkeypatch):
    monkeypatch.chdir(workshop.place)
    return workshop


def weights_of(at, folder):
    """All tensors of a source by name."""
    backbone, heads = at.load_source_model(folder, "ink", SWIN, image_size=64, **TINY)
    arrays_of = importlib.import_module(f"{at.package}.backend").arrays_of
    return {**arrays_of(backbone), **heads}


def test_a_source_is_trained_and_recorded(at, capsys):
    text = (at.place / "sources/ink.results.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert all(np.isfinite(line["loss"]) for line in lines)
    assert not (at.place / "sources/ink.state.safetensors").exists()
    assert weights_of(at, "sources")["fc.weight_v"].shape == (3, 16)
    assert pretrain(at, "ink") == 2
    assert "trained already" in capsys.readouterr().err


def test_heads_of_all_sources_start_alike():
    one, other = (source_training.initial_heads(96, 16, 3, seed=0) for _ in range(2))
    assert all((one[name] == other[name]).all() for name in one)
    assert (one["fc.weight_v"] != source_training.initial_heads(96, 16, 3, 1)["fc.weight_v"]).any()


def test_a_stopped_pretraining_goes_on(at, tmp_path, monkeypatch):
    """Stopped after its first epoch and started again, it ends with the unbroken run's weights."""
    original, calls = source_training.train_epoch, iter(range(10))

    def stop(*arguments):
        if next(calls) == 1:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(source_training, "train_epoch", stop)
        assert pretrain(at, "ink", "--output", str(tmp_path / "again")) == 130
    assert pretrain(at, "ink", "--output", str(tmp_path / "again")) == 0
    whole, again = weights_of(at, "sources"), weights_of(at, tmp_path / "again")
    assert whole.keys() == again.keys()
    assert all((whole[name] == again[name]).all() for name in whole)


def test_a_training_with_other_settings_is_not_gone_on_with(at, tmp_path, monkeypatch, capsys):
    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(source_training, "accuracy_of", stop)
        assert pretrain(at, "ink", "--output", str(tmp_path)) == 130
    assert not list(tmp_path.iterdir())  # no epoch was whole
    state = tmp_path / "ink.state.safetensors"
    state.write_bytes(b"half a file")
    assert pretrain(at, "ink", "--output", str(tmp_path)) == 2
    assert "not a readable checkpoint" in capsys.readouterr().err
    source_training.write_state(state, {"lr": "other"}, [], {}, {"a": np.zeros(1)})
    assert pretrain(at, "ink", "--output", str(tmp_path)) == 2
    assert "left by a training with other settings" in capsys.readouterr().err


def test_the_best_epoch_is_what_is_saved(at, tmp_path, monkeypatch):
    """Not the last, and not a reference that follows the training."""
    seen = []

    def accuracy(trainer, images, rows):
        seen.append(trainer.weights()["fc.bias"])
        return [90.0, 50.0][len(seen) - 1]

    monkeypatch.setattr(source_training, "accuracy_of", accuracy)
    assert pretrain(at, "ink", "--output", str(tmp_path / "best")) == 0
    heads = weights_of(at, tmp_path / "best")
    assert (heads["fc.bias"] == seen[0]).all()
    assert (heads["fc.bias"] != seen[1]).any()


def test_from_images_to_predictions(at, tmp_path):
    bank = tmp_path / "bank"
    assert at.main([*EXTRACT, "--output", str(bank), "--views", "center", "drawn"]) == 0
    run = ["--config", "own", "--target", "clay", "--set", f"data.bank={bank}"]
    settings = ["train.epochs=2", "attention.width=8", "train.batch_size=16", "run.mode=pynative"]
    quick = ["--no-report", *(part for setting in settings for part in ("--set", setting))]
    for profile in ("paper", "official"):
        out = tmp_path / profile
        assert ms_main(["train", *run, *quick, "--profile", profile, "--output", str(out)]) == 0
        with (out / "predictions.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 36
        assert {row["class"] for row in rows} <= set(CLASSES)
        assert rows[0].keys() == {"sample", "class", "confidence", "weight_ink", "weight_chalk"}
        assert "accuracy" not in results(out)[-1]


def test_the_bank_holds_the_backbones_features(at, tmp_path):
    bank = tmp_path / "bank"
    assert at.main([*EXTRACT, "--output", str(bank), "--dtype", "float16"]) == 0
    loaded = load_bank(bank)
    assert loaded.features.dtype == np.float16
    view = center_view(read_image(at.place / "clay" / loaded.samples[7]), Transform(72, 64))
    extractor = importlib.import_module(f"{at.package}.extract").Extractor
    for place, domain in enumerate(loaded.domains):
        backbone, _ = at.load_source_model("sources", domain, SWIN, image_size=64, **TINY)
        expected = extractor([backbone], Config(run=Run(mode="pynative")))(view[None])[0, 0]
        assert loaded.features[7, place] == pytest.approx(expected, abs=2e-3)


def test_a_feature_that_float16_cannot_hold_is_told(at, tmp_path, monkeypatch, capsys):
    original = extracting.features_of
    monkeypatch.setattr(extracting, "features_of", lambda *a: 1e6 + original(*a))
    assert at.main([*EXTRACT, "--output", str(tmp_path / "bank"), "--dtype", "float16"]) == 1
    assert "does not fit float16" in capsys.readouterr().err


def test_labels_come_from_folders_or_a_list(at, tmp_path):
    assert at.main([*EXTRACT, "--labelled", "--output", str(tmp_path / "folders")]) == 0
    assert load_bank(tmp_path / "folders").labels.tolist() == [0] * 12 + [1] * 12 + [2] * 12
    (tmp_path / "list.txt").write_text("disc/03.png 1\nbar/00.png 0")
    listed = [*EXTRACT, "--list", str(tmp_path / "list.txt"), "--output", str(tmp_path / "list")]
    assert at.main(listed) == 0
    assert load_bank(tmp_path / "list").samples == ("disc/03.png", "bar/00.png")


def test_an_interrupted_extraction_goes_on(at, tmp_path, monkeypatch, capsys):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    views = ["--views", "center", "drawn"]
    assert at.main([*EXTRACT, *views, "--output", str(whole)]) == 0
    original, calls = extracting.features_of, []

    def stop(models, views):
        calls.append(len(views))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(models, views)

    monkeypatch.setattr(extracting, "SAVE_EVERY", 1)
    with monkeypatch.context() as patch:
        patch.setattr(extracting, "features_of", stop)
        assert at.main([*EXTRACT, *views, "--output", str(broken)]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not broken.exists()
    assert (tmp_path / "broken.partial/state.json").is_file()
    assert at.main([*EXTRACT, *views, "--output", str(broken)]) == 0
    assert "going on after 16 of 36 images" in capsys.readouterr().out
    for view in ("center", "drawn"):
        one, other = load_bank(whole, view), load_bank(broken, view)
        assert (one.features == other.features).all()
    assert (whole / "manifest.json").read_text() == (broken / "manifest.json").read_text()


def test_a_bank_is_never_reused_for_something_else(at, tmp_path, capsys):
    bank = ["--output", str(tmp_path / "bank")]
    assert at.main([*EXTRACT, *bank]) == 0
    before = (tmp_path / "bank/manifest.json").read_bytes()
    assert at.main([*EXTRACT, *bank]) == 0
    assert "is there already" in capsys.readouterr().out
    draw_class(tmp_path / "more", "clay", count=13)
    for change, what in (
        (["--resize", "80"], "origin"),
        (["--views", "drawn"], "views"),
        (["--target", "mud"], "target"),
        (["--images", str(tmp_path / "more")], "samples"),
    ):
        assert at.main([*EXTRACT, *bank, *change]) == 2
        assert f"other {what}" in capsys.readouterr().err
    assert (tmp_path / "bank/manifest.json").read_bytes() == before


def test_bad_images(at, tmp_path, capsys):
    images = draw_class(tmp_path / "clay", "clay", count=2)
    (images / "bar/01.png").write_bytes((images / "bar/01.png").read_bytes()[:60])
    command = [*EXTRACT, "--images", str(images), "--output", str(tmp_path / "bank")]
    assert at.main(command) == 2
    line = capsys.readouterr().err
    assert "bar/01.png" in line
    assert "--skip-bad" in line
    assert not (tmp_path / "bank").exists()
    assert at.main([*command, "--skip-bad"]) == 0
    bank = load_bank(tmp_path / "bank")
    assert len(bank) == 5
    assert "bar/01.png" not in bank.samples
    manifest = json.loads((tmp_path / "bank/manifest.json").read_text())
    assert manifest["skipped"] == ["bar/01.png"]
    assert at.main([*command, "--skip-bad"]) == 0
    assert "is there already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--images", "nowhere"], "nowhere: no such folder of images"),
        (
            ["--classes", "nowhere.txt"],
            "nowhere.txt: neither a file nor a known order; known: domain",
        ),
        (
            ["--classes", "office_home/list"],
            "known order; known: domainnet/lists, domainnet/folders",
        ),
        (["--classes", "office_caltech"], "trained on 3 classes, --classes has 10"),
        (["--crop", "100"], "--crop: must be above 0 and at most --resize (72), found 100"),
        (["--backbone", "resnet50"], "ask for swin_tiny"),
        (["--source", "ink=elsewhere"], "'ink' is named twice"),
        (["--source", "mud=sources"], "no trained source 'mud'"),
        (["--device", "GPU"], "device 'GPU' is not there"),
        (["--backbone-set", "depths"], "expected KEY=VALUE"),
        (["--backbone-set", "depths=[1"], "not valid YAML"),
        (["--backbone-set", "image_size=96"], "image_size is set by --crop"),
    ],
)
def test_a_mistake_is_one_line(at, tmp_path, capsys, change, message):
    assert at.main([*EXTRACT, "--output", str(tmp_path / "bank"), *change]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "bank").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--domain", "a/b"], "--domain a/b: expected a plain name"),
        (["--width", "0"], "--width needs at least 1"),
        (["--images", "ink/bar"], "ink/bar: 0 sub-folders; expected one for each class"),
        (["--held-out", "0.99"], "leaves no images to train on"),
        (["--batch", "30"], "--batch: 30 is too large for 36 images"),
    ],
)
def test_a_mistake_in_training_is_one_line(at, tmp_path, capsys, change, message):
    assert pretrain(at, "ink", "--output", str(tmp_path / "new"), *change) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "new").exists()


def test_a_source_that_came_from_elsewhere_is_not_written_over(at, tmp_path, capsys):
    (tmp_path / "ink.backbone.safetensors").write_bytes(b"mine")
    assert pretrain(at, "ink", "--output", str(tmp_path)) == 2
    assert "trained already" in capsys.readouterr().err
    assert (tmp_path / "ink.backbone.safetensors").read_bytes() == b"mine"


def test_one_source_is_refused(at, tmp_path, capsys):
    chalk = EXTRACT.index("chalk=sources")
    command = EXTRACT[: chalk - 1] + EXTRACT[chalk + 1 :]
    assert at.main([*command, "--output", str(tmp_path / "bank")]) == 2
    assert "one source only" in capsys.readouterr().err


def test_classes_must_be_the_sources(at, tmp_path, capsys):
    (tmp_path / "two.txt").write_text("bar\ndisc")
    command = [*EXTRACT, "--output", str(tmp_path / "bank"), "--classes", str(tmp_path / "two.txt")]
    assert at.main(command) == 2
    assert "trained on 3 classes" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_names_the_images(at, tmp_path, capsys):
    given = ["--optimizer", "sgd", "--lr", "1e30", "--output", str(tmp_path)]
    assert pretrain(at, "ink", *given) == 1
    message = capsys.readouterr().err
    assert "the loss became nan in epoch 1/2, batch 2 on the images '" in message
    assert ".png', ... 8 in all; start anew with a smaller --lr (now 1e+30)" in message
    assert not list(tmp_path.iterdir())


def test_weights_that_are_not_finite_are_no_state(at, tmp_path, capsys, monkeypatch):
    """The last step of an epoch spoils them: no loss has seen them yet."""
    trainer = importlib.import_module(f"{at.package}.backend").Trainer
    original = trainer.state

    def state(self):
        arrays = original(self)
        arrays["backbone.norm.weight"][3] = np.inf
        return arrays

    monkeypatch.setattr(trainer, "state", state)
    assert pretrain(at, "ink", "--output", str(tmp_path)) == 1
    assert "not finite in the weights: backbone.norm.weight" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
