"""From image files to predictions.csv: pretrain, extract, train, with a tiny Swin."""

import csv
import json

import numpy as np
import pytest
import torch

import torch_ref.extract
from ms_biaten.cli import main as ms_main
from ms_biaten.spec.bank import load_bank
from ms_biaten.spec.images import Transform, center_view, read_image
from tests.conftest import ROOT, results
from tests.pictures import CLASSES, draw_class
from torch_ref.cli import main as torch_main
from torch_ref.importers import load_source_model

SWIN = "swin_tiny_patch4_window7_224"
TINY = {"embed_dim": 24, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 2], "window_size": 2}
MODEL = ["--backbone", SWIN, "--resize", "72", "--crop", "64", "--workers", "0"]
for option, value in TINY.items():
    MODEL += ["--backbone-set", f"{option}={value}"]
SOURCES = ["--source", "ink=sources", "--source", "chalk=sources"]
EXTRACT = ["extract", *MODEL, *SOURCES, "--images", "clay", "--classes", "classes.txt"]
EXTRACT += ["--target", "clay", "--batch", "8"]


def pretrain(domain, *more):
    arguments = ["--domain", domain, "--images", domain, "--labelled", "--output", "sources"]
    quick = "--epochs 2 --batch 8 --width 16 --optimizer adamw --lr 1e-3".split()  # noqa: SIM905
    return torch_main(["pretrain", *MODEL, *arguments, *quick, *more])


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """Three styles of pictures; a tiny Swin trained on two of them."""
    place = tmp_path_factory.mktemp("workshop")
    for style in ("ink", "chalk", "clay"):
        draw_class(place / style, style)
    (place / "classes.txt").write_text("\n".join(CLASSES))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        torch.set_num_threads(1)
        assert pretrain("ink") == 0
        assert pretrain("chalk") == 0
    return place


@pytest.fixture
def at(workshop, monkeypatch):
    monkeypatch.chdir(workshop)
    return workshop


def test_a_source_is_trained_and_recorded(at, capsys):
    lines = [json.loads(x) for x in (at / "sources/ink.results.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert all(np.isfinite(line["loss"]) for line in lines)
    assert not (at / "sources/ink.state.pt").exists()
    _, heads = load_source_model("sources", "ink", SWIN, image_size=64, **TINY)
    assert heads["fc.weight_v"].shape == (3, 16)
    assert pretrain("ink") == 2
    assert "trained already" in capsys.readouterr().err


def test_heads_of_all_sources_start_alike():
    from torch_ref.backbones import make_backbone
    from torch_ref.pretrain import SourceModel

    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        backbone = make_backbone(SWIN, image_size=64, **TINY)
        models.append(SourceModel(backbone, 16, 3, head_seed=0))
    one, other = (model.heads() for model in models)
    assert all((one[name] == other[name]).all() for name in one)


def test_a_stopped_pretraining_goes_on(at, tmp_path, monkeypatch):
    """Stopped after its first epoch and started again, it ends with the unbroken run's weights."""
    import torch_ref.pretrain as module

    original, calls = module.train_epoch, iter(range(10))

    def stop(*arguments):
        if next(calls) == 1:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "train_epoch", stop)
        assert pretrain("ink", "--output", str(tmp_path / "again")) == 130
    assert pretrain("ink", "--output", str(tmp_path / "again")) == 0
    whole = load_source_model("sources", "ink", SWIN, image_size=64, **TINY)
    again = load_source_model(tmp_path / "again", "ink", SWIN, image_size=64, **TINY)
    assert all((whole[1][name] == again[1][name]).all() for name in whole[1])
    states = (pair[0].state_dict() for pair in (whole, again))
    assert all(torch.equal(a, b) for a, b in zip(*(s.values() for s in states), strict=True))


def test_the_best_epoch_is_what_is_saved(at, tmp_path, monkeypatch):
    """Not the last, and not a reference that follows the training."""
    import torch_ref.pretrain as module

    seen = []

    def accuracy(model, loader, place):
        seen.append(model.heads()["fc.bias"])
        return [90.0, 50.0][len(seen) - 1]

    monkeypatch.setattr(module, "accuracy_of", accuracy)
    assert pretrain("ink", "--output", str(tmp_path / "best")) == 0
    _, heads = load_source_model(tmp_path / "best", "ink", SWIN, image_size=64, **TINY)
    assert (heads["fc.bias"] == seen[0]).all()
    assert (heads["fc.bias"] != seen[1]).any()


def test_from_images_to_predictions(at, tmp_path):
    bank = tmp_path / "bank"
    assert torch_main([*EXTRACT, "--output", str(bank), "--views", "center", "drawn"]) == 0
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
    assert torch_main([*EXTRACT, "--output", str(bank), "--dtype", "float16"]) == 0
    loaded = load_bank(bank)
    assert loaded.features.dtype == np.float16
    view = center_view(read_image(at / "clay" / loaded.samples[7]), Transform(72, 64))
    for place, domain in enumerate(loaded.domains):
        backbone, _ = load_source_model("sources", domain, SWIN, image_size=64, **TINY)
        with torch.inference_mode():
            expected = backbone(torch.from_numpy(view[None]))[0].numpy()
        assert loaded.features[7, place] == pytest.approx(expected, abs=2e-3)


def test_a_feature_that_float16_cannot_hold_is_told(at, tmp_path, monkeypatch, capsys):
    original = torch_ref.extract.features_of
    monkeypatch.setattr(torch_ref.extract, "features_of", lambda *a: 1e6 + original(*a))
    assert torch_main([*EXTRACT, "--output", str(tmp_path / "bank"), "--dtype", "float16"]) == 1
    assert "does not fit float16" in capsys.readouterr().err


def test_labels_come_from_folders_or_a_list(at, tmp_path):
    assert torch_main([*EXTRACT, "--labelled", "--output", str(tmp_path / "folders")]) == 0
    assert load_bank(tmp_path / "folders").labels.tolist() == [0] * 12 + [1] * 12 + [2] * 12
    (tmp_path / "list.txt").write_text("disc/03.png 1\nbar/00.png 0")
    listed = [*EXTRACT, "--list", str(tmp_path / "list.txt"), "--output", str(tmp_path / "list")]
    assert torch_main(listed) == 0
    assert load_bank(tmp_path / "list").samples == ("disc/03.png", "bar/00.png")


def test_an_interrupted_extraction_goes_on(at, tmp_path, monkeypatch, capsys):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    views = ["--views", "center", "drawn"]
    assert torch_main([*EXTRACT, *views, "--output", str(whole)]) == 0
    original, calls = torch_ref.extract.features_of, []

    def stop(models, views):
        calls.append(len(views))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(models, views)

    monkeypatch.setattr(torch_ref.extract, "SAVE_EVERY", 1)
    with monkeypatch.context() as patch:
        patch.setattr(torch_ref.extract, "features_of", stop)
        assert torch_main([*EXTRACT, *views, "--output", str(broken)]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not broken.exists()
    assert (tmp_path / "broken.partial/state.json").is_file()
    assert torch_main([*EXTRACT, *views, "--output", str(broken)]) == 0
    assert "going on after 16 of 36 images" in capsys.readouterr().out
    for view in ("center", "drawn"):
        one, other = load_bank(whole, view), load_bank(broken, view)
        assert (one.features == other.features).all()
    assert (whole / "manifest.json").read_text() == (broken / "manifest.json").read_text()


def test_a_bank_is_never_reused_for_something_else(at, tmp_path, capsys):
    bank = ["--output", str(tmp_path / "bank")]
    assert torch_main([*EXTRACT, *bank]) == 0
    before = (tmp_path / "bank/manifest.json").read_bytes()
    assert torch_main([*EXTRACT, *bank]) == 0
    assert "is there already" in capsys.readouterr().out
    draw_class(tmp_path / "more", "clay", count=13)
    for change, what in (
        (["--resize", "80"], "origin"),
        (["--views", "drawn"], "views"),
        (["--target", "mud"], "target"),
        (["--images", str(tmp_path / "more")], "samples"),
    ):
        assert torch_main([*EXTRACT, *bank, *change]) == 2
        assert f"other {what}" in capsys.readouterr().err
    assert (tmp_path / "bank/manifest.json").read_bytes() == before


def test_bad_images(at, tmp_path, capsys):
    images = draw_class(tmp_path / "clay", "clay", count=2)
    (images / "bar/01.png").write_bytes((images / "bar/01.png").read_bytes()[:60])
    command = [*EXTRACT, "--images", str(images), "--output", str(tmp_path / "bank")]
    assert torch_main(command) == 2
    line = capsys.readouterr().err
    assert "bar/01.png" in line
    assert "--skip-bad" in line
    assert not (tmp_path / "bank").exists()
    assert torch_main([*command, "--skip-bad"]) == 0
    bank = load_bank(tmp_path / "bank")
    assert len(bank) == 5
    assert "bar/01.png" not in bank.samples
    manifest = json.loads((tmp_path / "bank/manifest.json").read_text())
    assert manifest["skipped"] == ["bar/01.png"]
    assert torch_main([*command, "--skip-bad"]) == 0
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
        (["--backbone", "resnet18"], "ask for swin_tiny"),
        (["--source", "ink=elsewhere"], "'ink' is named twice"),
        (["--source", "mud=sources"], "no trained source 'mud'"),
        (["--device", "GPU"], "device 'GPU' is not there"),
        (["--backbone-set", "depths"], "expected KEY=VALUE"),
    ],
)
def test_a_mistake_is_one_line(at, tmp_path, capsys, change, message):
    assert torch_main([*EXTRACT, "--output", str(tmp_path / "bank"), *change]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "bank").exists()


def test_the_page_works_as_it_is_written(tmp_path, monkeypatch):
    """Every command of docs/own-data.md, with a small model and no download."""
    monkeypatch.chdir(tmp_path)
    for style, name in (("ink", "photo"), ("chalk", "sketch"), ("clay", "pictures")):
        draw_class(tmp_path / name, style, count=12 if name == "pictures" else 24)
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES))
    text = (ROOT / "docs/own-data.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("python ")]
    assert [line.split()[1] for line in lines] == [
        "torch_ref/pretrain.py",
        "torch_ref/pretrain.py",
        "torch_ref/extract.py",
        "ms_biaten/train.py",
    ]
    for line in lines:
        script, *arguments = line.replace("resnet50", "test_resnet").split()[1:]
        arguments = [a for a in arguments if a != "--download"]
        if script.startswith("torch_ref"):
            arguments += ["--workers", "0", "--resize", "72", "--crop", "64"]
            arguments += ["--epochs", "1"] if "pretrain" in script else []
            command = script.removeprefix("torch_ref/").removesuffix(".py")
            assert torch_main([command, *arguments]) == 0
        else:
            quick = ["--set", "train.epochs=1", "--set", "attention.width=8"]
            assert ms_main(["train", *arguments, *quick, "--set", "run.mode=pynative"]) == 0
    (predictions,) = tmp_path.glob("runs/own/mine/*/predictions.csv")
    assert len(predictions.read_text().splitlines()) == 37


def test_one_source_is_refused(at, tmp_path, capsys):
    chalk = EXTRACT.index("chalk=sources")
    command = EXTRACT[: chalk - 1] + EXTRACT[chalk + 1 :]
    assert torch_main([*command, "--output", str(tmp_path / "bank")]) == 2
    assert "one source only" in capsys.readouterr().err


def test_classes_must_be_the_sources(at, tmp_path, capsys):
    (tmp_path / "two.txt").write_text("bar\ndisc")
    command = [*EXTRACT, "--output", str(tmp_path / "bank"), "--classes", str(tmp_path / "two.txt")]
    assert torch_main(command) == 2
    assert "trained on 3 classes" in capsys.readouterr().err
