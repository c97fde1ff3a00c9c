"""Every mistake ends in one clear line and exit code 2, and overwrites nothing."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from ms_biaten.cli import main
from ms_biaten.spec.bank import save_bank
from ms_biaten.spec.debug import debug_bank, debug_source
from tests.conftest import SMALL


def refused(capsys, *arguments):
    """The one line of a refused command."""
    assert main(["train", *SMALL, *arguments]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    lines = streams.err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "train.lrr=1"], "unknown key 'train.lrr'; did you mean 'lr'?"),
        (["--set", "train.lr=fast"], "expected a number, found 'fast'"),
        (["--target", "nite"], "target 'nite' is not a domain of debug"),
        (["--method", "bi-aten"], "'bi-aten' is not one of bi_aten, aten"),
        (["--profile", "offical"], "did you mean 'official'?"),
        (["--config", "missing.yaml"], "config 'missing.yaml' is not a file"),
        (["--config", "domainnet"], "data.bank: not set"),
        (["--config", "emoji", "--set", "data.bank=nowhere/{target}"], "`make emoji` builds it"),
        (["--config", "office_caltech"], "`make office_caltech IMAGES=FOLDER` builds it"),
        (["--set", "data.bank=nowhere"], "no feature bank at nowhere"),
        (["--set", "data.sources=nowhere"], "no source heads at nowhere/dawn.safetensors"),
        (["--set", "train.batch_size=2000"], "2000 is larger than the target set (1000 samples)"),
        (["--set", "model.raw_width=10"], "features are 48 wide, but model.raw_width is 10"),
        (["--device", "Ascend"], "device 'Ascend' is not there; MindSpore here has: CPU"),
        (["--device", "TPU"], "device 'TPU' is not there; MindSpore here has: CPU"),
        (["--resume"], "--resume: name the run"),
        (["--resume", "nowhere"], "nowhere holds no run"),
    ],
)
def test_a_mistake_is_one_line(folder, capsys, arguments, message):
    assert message in refused(capsys, *arguments)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"domains": ("dawn",), "features": np.zeros((1000, 1, 48), np.float32)}, "1 source;"),
        ({"classes": ("a", "b", "c")}, "3 classes, but debug has 7"),
        ({"features": np.zeros((1000, 3, 50), np.float32)}, "features are 50 wide"),
        ({"features": np.full((1000, 3, 48), np.nan, np.float32)}, "NaN or Inf in the features"),
        ({"features": np.full((1000, 3, 48), np.inf, np.float32)}, "NaN or Inf in the features"),
        ({"features": np.zeros((1000, 3, 48), np.int32)}, "expected float16 or float32"),
        ({"labels": np.full(1000, -1)}, "label -1 of sample 0"),
    ],
)
def test_a_bank_that_does_not_fit(folder, capsys, change, message):
    save_bank(folder / "bank", dataclasses.replace(debug_bank("night"), **change))
    line = refused(capsys, "--set", "data.bank=bank")
    assert message in line
    assert "bank" in line
    assert [path.name for path in folder.iterdir()] == ["bank"]


def test_source_heads_of_another_class_count(folder, capsys):
    (folder / "heads").mkdir()
    for domain in ("dawn", "noon", "dusk"):
        source = debug_source(domain)
        source["fc.bias"] = np.zeros(9, np.float32)
        save_file(source, folder / "heads" / f"{domain}.safetensors")
    line = refused(capsys, "--set", "data.sources=heads")
    assert "heads/dawn.safetensors: fc.bias is (9,), expected (7,)" in line


@pytest.mark.parametrize("content", ["another run", "a file"])
def test_an_output_that_is_taken_is_not_touched(folder, capsys, content):
    if content == "another run":
        assert main(["train", *SMALL, "--output", "out"]) == 0
        capsys.readouterr()
    else:
        (folder / "out").mkdir()
        (folder / "out/thesis.tex").write_text("years of work")
    before = {p: p.read_bytes() for p in (folder / "out").rglob("*") if p.is_file()}
    line = refused(capsys, "--output", "out", "--seed", "1")
    assert "output out already holds" in line
    assert "--resume" in line
    assert {p: p.read_bytes() for p in (folder / "out").rglob("*") if p.is_file()} == before


def test_a_broken_checkpoint_is_named(folder, capsys):
    assert main(["train", *SMALL, "--output", "run"]) == 0
    path = folder / "run/results.jsonl"
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:-1]))
    checkpoint = folder / "run/checkpoints/last.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    capsys.readouterr()
    assert main(["train", "--resume", "run"]) == 2
    assert "last.safetensors: not a readable checkpoint" in capsys.readouterr().err


def test_an_unknown_option_ends_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["train", "--learning-rate", "1"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("key", "value"), [("beta", [1e308] * 3), ("accuracy", float("inf")), ("baselines", {"a": -1})]
)
def test_numbers_that_no_figure_has_room_for(folder, capsys, key, value):
    assert main(["train", *SMALL, "--output", "run"]) == 0
    path = folder / "run/results.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.update({key: value} if key in line else {})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert main(["report", "run"]) == 2
    assert f"'{key}' is damaged" in capsys.readouterr().err
