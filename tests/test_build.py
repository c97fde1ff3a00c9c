"""`build`: a benchmark's images into lists, sources and banks; stopped, it goes on."""

import re
import shlex
import subprocess

import numpy as np
import pytest
import torch
from PIL import Image

from ms_biaten.spec import building
from ms_biaten.spec.bank import load_bank
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.commands import build_parser
from ms_biaten.spec.lists import ImageList
from ms_biaten.spec.orders import class_order
from ms_biaten.spec.pretraining import OPTIMIZERS, epochs_of, identity_of
from tests.conftest import ROOT, results
from torch_ref import build_emoji
from torch_ref.cli import main as torch_main

DOMAINS = benchmark("office_caltech").domains
SMALL = ["--backbone", "test_resnet", "--resize", "40", "--crop", "32", "--workers", "0"]
QUICK = ["--batch", "8", "--steps", "2", "--width", "16", "--views", "center", "drawn"]
BUILD = ["build", "--benchmark", "office_caltech", "--images", "images", "--output", "out"]
BUILD += [*SMALL, *QUICK]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    place = tmp_path_factory.mktemp("office")
    rng = np.random.default_rng(0)
    for domain in DOMAINS:
        for name in class_order("office_caltech"):
            folder = place / "images" / domain / name
            folder.mkdir(parents=True)
            for index in range(2):
                pixels = rng.integers(0, 255, (32, 32, 3), np.uint8)
                Image.fromarray(pixels).save(folder / f"{index}.png")
    return place


def test_from_image_folders_to_a_run(workshop, monkeypatch, capsys):
    monkeypatch.chdir(workshop)
    torch.set_num_threads(1)
    trained, original = [], building.pretrain_command

    def pretrain(options, *program):
        trained.append(options.domain)
        if trained == ["amazon", "caltech"]:
            raise KeyboardInterrupt
        original(options, *program)

    monkeypatch.setattr(building, "pretrain_command", pretrain)
    assert torch_main(BUILD) == 130
    assert torch_main(BUILD) == 0
    assert trained == ["amazon", "caltech", "caltech", "dslr", "webcam"]
    assert "source amazon is there already" in capsys.readouterr().out
    for target in DOMAINS:
        bank = load_bank(workshop / "out/banks" / target, "drawn")
        assert bank.domains == benchmark("office_caltech").sources(target)
        assert bank.samples[0] == f"{target}/backpack/0.png"
        assert bank.labels.tolist() == [label for label in range(10) for _ in range(2)]

    run = ["--config", "office_caltech", "--target", "dslr", "--output", "run", "--no-report"]
    settings = ["data.bank=out/banks/{target}", "model.raw_width=0", "model.width=0"]
    settings += ["attention.width=8", "train.epochs=1", "train.batch_size=8"]
    assert torch_main(["train", *run, *(p for s in settings for p in ("--set", s))]) == 0
    assert "accuracy" in results(workshop / "run")[-1]

    assert torch_main(BUILD) == 0
    assert capsys.readouterr().out.count("is there already") == 8


def test_sources_of_another_class_order_are_refused_unread(workshop, monkeypatch, capsys):
    """Before any image: the heads say the order that they were trained with."""
    monkeypatch.chdir(workshop)
    read = []
    monkeypatch.setattr("ms_biaten.spec.extracting.images_of", lambda *a: read.append(a))
    sources = ["--source", "amazon=out/sources", "--source", "webcam=out/sources"]
    command = ["extract", *SMALL, *sources, "--images", "images/dslr", "--target", "dslr"]
    command += ["--output", "other", "--classes", "office_caltech/office31"]
    assert torch_main(command) == 2
    line = capsys.readouterr().err
    assert "amazon.safetensors: trained with another class order (office_caltech/plain)" in line
    assert "'back_pack' in --classes (office_caltech/office31)" in line
    assert not read


def test_a_benchmark_without_known_orders_is_told(workshop, monkeypatch, capsys):
    monkeypatch.chdir(workshop)
    assert torch_main([*BUILD, "--benchmark", "emoji"]) == 2
    assert "lists are made for" in capsys.readouterr().err


@pytest.mark.parametrize(("images", "epochs"), [(157, 30), (295, 17), (958, 6), (1123, 5)], ids=str)
def test_steps_are_whole_epochs_that_reach_them(tmp_path, images, epochs):
    parser = build_parser("x")
    listed = ImageList(tmp_path, tuple(map(str, range(images))), (0,) * images)
    options = parser.parse_args([*BUILD, "--batch", "32", "--steps", "150"])
    assert epochs_of(options, listed) == epochs


def test_epochs_have_a_default_and_exclude_steps(workshop, monkeypatch, tmp_path, capsys):
    parser = build_parser("x")
    plain = [part for part in BUILD if part not in ("--steps", "2")]
    assert epochs_of(parser.parse_args(plain), None) == 20
    with pytest.raises(SystemExit):
        parser.parse_args([*BUILD, "--epochs", "3"])
    monkeypatch.chdir(workshop)
    assert torch_main([*BUILD, "--steps", "0", "--output", str(tmp_path)]) == 2
    assert "--epochs and --steps need at least 1" in capsys.readouterr().err


def test_a_training_goes_on_only_with_what_decides_its_weights(tmp_path):
    def identity(*more, labels=(0, 1)):
        options = build_parser("x").parse_args([*BUILD, *more])
        vars(options).update(OPTIMIZERS["sgd"], epochs=3)
        images = ImageList(tmp_path, ("a", "b"), labels)
        return identity_of(options, ("c", "d"), images, {})

    assert identity("--workers", "3", "--dtype", "float16") == identity()
    assert identity("--resize", "41") != identity()
    assert identity(labels=(1, 0)) != identity()


def test_make_office_caltech_says_a_command_that_parses():
    done = subprocess.run(
        ["make", "-n", "office_caltech", "IMAGES=some folder"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    text = done.stdout.replace("\\\n", " ")
    (line,) = re.findall(r"-m torch_ref (build .*)", text)
    options = build_parser("x").parse_args(shlex.split(line))
    assert (str(options.images), options.steps, options.batch) == ("some folder", 150, 32)
    done = subprocess.run(["make", "office_caltech"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "IMAGES=folder" in done.stdout


def test_emoji_is_built_by_the_same_steps(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(build_emoji, "draw_images", lambda arguments: 0)
    monkeypatch.setattr(build_emoji, "lite0_weights", lambda: tmp_path / "lite0.pth")
    for name in ("pretrain_command", "extract_command"):
        monkeypatch.setattr(building, name, lambda options, *_: steps.append(options))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/noto.results.jsonl").touch()
    root, banks = str(tmp_path), str(tmp_path / "banks")
    assert build_emoji.main(["--root", root, "--banks", banks, "--workers", "1"]) == 0
    sources, targets = steps[:4], steps[4:]
    assert [s.domain for s in sources] == ["twemoji", "fluent", "contrast", "monotone"]
    assert [t.target for t in targets] == list(benchmark("emoji").domains)
    assert sources[0].list == tmp_path / "lists/twemoji_source.txt"
    assert targets[0].list == tmp_path / "lists/noto_target.txt"
    assert (sources[0].epochs, sources[0].batch, sources[0].workers) == (20, 16, 1)
    assert (targets[0].views, targets[0].dtype) == (["center", "drawn"], "float16")
    assert len(targets[0].source) == 4
