"""`predict`: images through a run's model, to a table and JSON lines."""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ms_biaten.cli import main as ms_main
from tests.conftest import SMALL
from tests.pictures import draw_class
from tests.thin_runs import MAINS, OPS, thin_sources


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("framework", MAINS)
@pytest.mark.parametrize("run", ["run", "live", "one_hot"])
def test_the_targets_own_images_are_classified_as_the_run_did(at, tmp_path, run, framework):
    out = tmp_path / "new"
    assert MAINS[framework](["predict", run, "clay", *OPS, "--output", str(out)]) == 0
    ours, theirs = rows_of(tmp_path / "new.csv"), rows_of(at / run / "predictions.csv")
    assert [row["image"].removeprefix("clay/") for row in ours] == [r["sample"] for r in theirs]
    assert len({row["confidence"] for row in ours}) == 18  # or agreement would say nothing
    for one, other in zip(ours, theirs, strict=True):
        assert one["class"] == other["class"]
        for column in ("confidence", "weight_ink", "weight_chalk"):
            assert float(one[column]) == pytest.approx(float(other[column]), abs=2e-5)
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    assert [line["class"] for line in lines] == [row["class"] for row in ours]
    first = lines[0]
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert first["source"] == max(first["weights"], key=first["weights"].get)
    assert first["classifier"] == first["classifiers"][first["source"]]
    if run != "run":
        assert first["classifiers"] == {"ink": "ink", "chalk": "chalk"}  # alpha is one-hot


def test_files_and_folders_each_image_once(at, tmp_path, capsys):
    places = ["clay/bar", "clay/disc/00.png", "clay/bar/00.png"]
    assert ms_main(["predict", "run", *places, *OPS, "--output", str(tmp_path / "p")]) == 0
    names = [row["image"] for row in rows_of(tmp_path / "p.csv")]
    assert names == [*(f"clay/bar/{i:02d}.png" for i in range(6)), "clay/disc/00.png"]
    assert "7 images in" in capsys.readouterr().out


def odd_images(folder):
    """One picture in every way that files differ."""
    folder.mkdir()
    pixels = np.full((60, 40, 3), 210, np.uint8)
    pixels[20:30] = (120, 60, 20)
    image = Image.fromarray(pixels)
    image.save(folder / "rgb.png")
    image.convert("L").save(folder / "grey.png")
    image.convert("P").save(folder / "palette.png")
    image.convert("CMYK").save(folder / "cmyk.jpg")
    image.convert("RGBA").save(folder / "alpha.png")
    image.resize((400, 600)).save(folder / "large.png")
    image.resize((4, 6)).save(folder / "tiny.png")
    turned = image.rotate(90, expand=True)
    exif = turned.getexif()
    exif[0x0112] = 6  # "turn me a quarter to the right"
    turned.save(folder / "turned.png", exif=exif)
    return folder


def test_every_kind_of_image(at, tmp_path):
    folder = odd_images(tmp_path / "odd")
    assert ms_main(["predict", "run", str(folder), *OPS, "--output", str(tmp_path / "p")]) == 0
    rows = {row["image"].rsplit("/", 1)[1]: row for row in rows_of(tmp_path / "p.csv")}
    assert len(rows) == 8
    for name in ("alpha.png", "turned.png"):  # exactly the same pixels
        assert rows[name] == {**rows["rgb.png"], "image": rows[name]["image"]}
    for name in ("grey.png", "cmyk.jpg"):  # other pixels, not the same answer by accident
        assert rows[name]["confidence"] != rows["rgb.png"]["confidence"]


def test_names_that_are_no_text(at, tmp_path):
    """A file name is any bytes, and comes back as it was."""
    odd = os.fsencode(tmp_path / "in") + b"/caf\xe9.png"
    (tmp_path / "in").mkdir()
    Path(os.fsdecode(odd)).write_bytes((at / "clay/bar/00.png").read_bytes())
    command = ["predict", "run", str(tmp_path / "in"), *OPS, "--output", str(tmp_path / "p")]
    assert ms_main(command) == 0
    assert odd in (tmp_path / "p.csv").read_bytes()


def test_an_unfinished_run_is_told(at, tmp_path, capsys):
    half = tmp_path / "half"
    shutil.copytree(at / "run", half)
    lines = (half / "results.jsonl").read_text().splitlines()
    (half / "results.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    assert ms_main(["predict", str(half), "clay", "--output", str(tmp_path / "p")]) == 2
    assert "not finished; `train --resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"origin": {"backbone": 3}}, "transform, weights unknown"),
        ({"classes": ["bar"]}, "names 2 sources and 1 classes, the checkpoint has 2 and 3"),
        ({"format": "other"}, "not the description of a model"),
    ],
)
def test_a_damaged_description_is_told(at, tmp_path, capsys, damage, message):
    run = tmp_path / "run"
    shutil.copytree(at / "run", run)
    tree = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps({**tree, **damage}))
    command = ["predict", str(run), "clay", "--models", "sources", *OPS]
    assert ms_main([*command, "--output", str(tmp_path / "p")]) == 2
    assert message in capsys.readouterr().err


def test_an_untrained_method_with_a_selection_rule(at, tmp_path):
    settings = ["data.bank=bank", "train.batch_size=9", "run.mode=pynative", "run.select=snd"]
    given = [part for setting in settings for part in ("--set", setting)]
    run = ["train", "--config", "own", "--target", "clay", "--no-report", "--method", "bn_only"]
    made, out = str(tmp_path / "bn"), str(tmp_path / "p")
    assert ms_main([*run, *given, "--output", made]) == 0
    assert ms_main(["predict", made, "clay", *OPS, "--output", out]) == 0


def test_a_broken_image_ends_it_or_is_left_out(at, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.png").write_bytes((at / "clay/bar/00.png").read_bytes())
    (tmp_path / "in/b.png").write_bytes(b"no image")
    command = ["predict", "run", str(tmp_path / "in"), *OPS, "--output", str(tmp_path / "p")]
    assert ms_main(command) == 2
    assert "b.png" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists() and not (tmp_path / "p.jsonl").exists()
    assert ms_main([*command, "--skip-bad"]) == 0
    assert len(rows_of(tmp_path / "p.csv")) == 1
    (tmp_path / "in/a.png").unlink()
    assert ms_main([*command[:-1], str(tmp_path / "q"), "--skip-bad"]) == 2
    assert "not one of the images could be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "clay"], "nowhere: holds no run"),
        (["run", "nowhere.png"], "nowhere.png: no such image or folder"),
        (["run", "sources"], "sources: no images; expected files ending in"),
        (["run", "clay", "--models", "bank"], "bank: no trained source 'ink'"),
        (["run", "clay", "--output", "no/where"], "no folder no"),
        (["run", "clay", "--output", "."], "--output .: a folder; expected the beginning"),
        (["run", "clay", "--batch", "0"], "--batch must be at least 1"),
        (["run", "clay", "--device", "Ascend"], "device 'Ascend' is not there"),
    ],
)
def test_a_mistake_is_one_line(at, tmp_path, capsys, arguments, message):
    given = [] if "--output" in arguments else ["--output", str(tmp_path / "p")]
    assert ms_main(["predict", *arguments, *given]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]


def test_nothing_is_overwritten(at, tmp_path, capsys):
    (tmp_path / "p.jsonl").write_text("mine")
    assert ms_main(["predict", "run", "clay", "--output", str(tmp_path / "p")]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "p.jsonl").read_text() == "mine"


def test_backbones_must_be_the_banks(at, tmp_path, capsys):
    """Other weights of the same architecture would give confident nonsense."""
    thin_sources(tmp_path / "other", first=7)
    command = ["predict", "run", "clay", *OPS, "--output", str(tmp_path / "p")]
    assert ms_main([*command, "--models", str(tmp_path / "other")]) == 2
    assert "not the weights that the bank's features" in capsys.readouterr().err


def test_a_run_on_features_alone_has_no_eyes(folder, capsys):
    assert ms_main(["train", *SMALL, "--output", "run"]) == 0
    draw_class(folder / "clay", "clay", count=1)
    assert ms_main(["predict", "run", "clay"]) == 2
    assert "were not made from images" in capsys.readouterr().err
