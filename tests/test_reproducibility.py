"""Every run records what its numbers come from; rerun repeats it, compare tells two runs apart."""

import dataclasses
import json
import shutil
import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ms_biaten.spec import provenance
from ms_biaten.spec.bank import save_bank
from ms_biaten.spec.comparison import difference
from ms_biaten.spec.debug import debug_bank, debug_source
from ms_biaten.spec.weights import write_safetensors
from tests.conftest import SMALL, results
from tests.test_run import StoppedError, stop_after
from tests.thin_runs import MAINS

NIGHT = debug_bank("night")
QUICK = [*SMALL, "--set", "train.epochs=1"]


def save_data(folder):
    """The debug benchmark's bank and heads, as files."""
    save_bank(folder / "bank", NIGHT)
    for domain in NIGHT.domains:
        path = folder / f"bank/heads/{domain}.safetensors"
        path.parent.mkdir(exist_ok=True)
        write_safetensors(path, debug_source(domain))
    return ["--set", "data.bank=bank", "--set", "data.sources=bank/heads"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a bank and a finished run of each framework."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        data = save_data(place)
        for name, main in MAINS.items():
            assert main(["train", *QUICK, *data, "--output", name]) == 0
    return place


@pytest.fixture
def runs(made, tmp_path, monkeypatch):
    """A copy that a test may spoil."""
    shutil.copytree(made, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


def doctor(run, kind, **changes):
    lines = [line | (changes if line["kind"] == kind else {}) for line in results(run)]
    (run / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_run_records_where_its_numbers_come_from(runs):
    start, *_, final = results(runs / "mindspore")
    told = start["provenance"]
    assert told["seed"] == 0
    assert told["machine"].items() >= {"device": "CPU", "cpu_threads": 1, "workers": 1}.items()
    assert told["machine"]["processor"] and told["machine"]["platform"]
    manifest = json.loads((runs / "bank/manifest.json").read_text())
    assert told["data"]["features"] == manifest["views"]["center"]
    assert told["data"]["heads"].keys() == {"dawn", "noon", "dusk"}
    assert len({*told["data"]["heads"].values(), told["data"]["bank"], told["start"]}) == 5
    arrays = load_file(runs / "mindspore/checkpoints/last.safetensors")
    assert final["sha256"]["weights"] == provenance.weights_digest(arrays)
    predictions = provenance.digest(runs / "mindspore/predictions.csv")
    assert final["sha256"]["predictions"] == predictions
    assert results(runs / "torch")[0]["provenance"]["start"] == told["start"]


def git(place, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", place, *who, *arguments], check=True, capture_output=True)


def test_the_commit_is_that_of_the_package_or_unknown(tmp_path, monkeypatch):
    unknown = {"commit": None, "clean": None}
    assert provenance.checkout(tmp_path) == unknown  # no repository
    package = tmp_path / "project/ms_biaten"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(package.parent, "init")
    look = provenance.checkout.__wrapped__
    assert look(package) == unknown  # in a repository that does not hold it
    git(package.parent, "add", ".")
    git(package.parent, "commit", "-m", "all")
    clean = look(package)
    assert len(clean["commit"]) == 40 and clean["clean"]
    (package / "__init__.py").write_text("changed = True")
    assert look(package) == {"commit": clean["commit"], "clean": False}
    monkeypatch.setenv("PATH", "")
    assert look(package) == unknown  # no git


@pytest.mark.parametrize("framework", MAINS)
def test_a_rerun_has_the_same_bits(runs, capsys, framework):
    assert MAINS[framework](["rerun", framework]) == 0
    output = capsys.readouterr().out
    assert output.endswith("verdict: the same to the last bit\n")
    assert "0 of 1000 samples get another class" in output
    one, other = (
        load_file(runs / f"{framework}{end}/checkpoints/last.safetensors") for end in ("", "-rerun")
    )
    assert all((one[name] == other[name]).all() for name in one)
    assert MAINS[framework](["rerun", framework]) == 2  # its folder is taken
    assert "already holds a run" in capsys.readouterr().err


def test_a_run_of_the_other_framework_is_compared_within_a_tolerance(runs, capsys):
    assert MAINS["torch"](["rerun", "mindspore", "--output", "again"]) == 0
    output = capsys.readouterr().out
    assert "compared within 0.0001: the run was mindspore's, this one is torch's" in output
    assert output.endswith("verdict: the same within 0.0001\n")
    assert results(runs / "again")[0]["versions"]["framework"] == "torch"


def other_features(runs):
    save_bank(runs / "bank", dataclasses.replace(NIGHT, features=NIGHT.features * 1.01))


def other_labels(runs):
    save_bank(runs / "bank", dataclasses.replace(NIGHT, labels=np.roll(NIGHT.labels, 1)))


def other_heads(runs):
    path = runs / "bank/heads/noon.safetensors"
    arrays = load_file(path)
    arrays["fc.bias"][0] += 1e-3
    save_file(arrays, path)


@pytest.mark.parametrize(
    "change, told",
    [
        (other_features, "not what it was run with: the bank's features; restore"),
        (other_labels, "not what it was run with: the bank's samples or labels; restore"),
        (other_heads, "not what it was run with: the heads of noon; restore"),
    ],
)
def test_other_data_are_refused_by_name(runs, capsys, change, told):
    change(runs)
    assert MAINS["torch"](["rerun", "torch"]) == 2
    assert told in capsys.readouterr().err
    assert not (runs / "torch-rerun").exists()


def test_a_rerun_that_differs_fails(runs, capsys):
    doctor(runs / "torch", "epoch", ce=0.5)
    assert MAINS["torch"](["rerun", "torch"]) == 1
    found = capsys.readouterr()
    assert "verdict: different" in found.out
    assert "torch and torch-rerun differ, first in epoch 1, ce: 0.5 and" in found.err


def test_runs_that_are_not_finished_or_old(runs, capsys):
    lines = (runs / "torch/results.jsonl").read_text().splitlines(keepends=True)
    (runs / "torch/results.jsonl").write_text("".join(lines[:-1]))
    assert MAINS["torch"](["rerun", "torch"]) == 2
    assert "not finished; `python -m torch_ref train --resume torch`" in capsys.readouterr().err
    start, epoch, final = (json.loads(line) for line in lines)
    del start["provenance"], final["sha256"]
    old = "".join(json.dumps(line) + "\n" for line in (start, epoch, final))
    (runs / "torch/results.jsonl").write_text(old)
    assert MAINS["torch"](["rerun", "torch"]) == 0
    output = capsys.readouterr().out
    assert "recorded no digests of its data: they are not checked" in output
    assert output.endswith("verdict: the same to the last bit\n")


def compared(*arguments):
    return MAINS["mindspore"](["compare", *arguments])


def test_a_doctored_line_is_found(runs, capsys):
    shutil.copytree("torch", "other")
    assert compared("torch", "other") == 0
    was = results(runs / "other")[1]["ce"]
    doctor(runs / "other", "epoch", ce=was + 1e-6)
    assert compared("torch", "other") == 1
    found = capsys.readouterr()
    assert "differ, first in epoch 1, ce: " in found.err
    assert compared("torch", "other", "--tolerance", "1e-5") == 0
    assert capsys.readouterr().out.endswith("verdict: the same within 1e-05\n")
    assert compared("torch", "other", "--tolerance", "1e-7") == 1
    assert compared("torch", "other", "--tolerance", "-1") == 2


def test_weights_and_predictions_are_compared_too(runs, capsys):
    shutil.copytree("torch", "other")
    path = runs / "other/predictions.csv"
    text = path.read_text()
    head, first, rest = text.split("\n", 2)
    sample, name, *numbers = first.split(",")
    name = "class_1" if name == "class_0" else "class_0"
    path.write_text("\n".join([head, ",".join([sample, name, *numbers]), rest]))
    assert compared("torch", "other", "--tolerance", "0.1") == 1
    found = capsys.readouterr()
    assert "predictions: 1 of 1000 samples get another class" in found.out
    assert "differ: 1 samples get another class" in found.err
    path.write_text(text)
    weights = runs / "other/checkpoints/last.safetensors"
    arrays = load_file(weights)
    arrays["model.bottlenecks.bias"][0] += 1e-3
    save_file(arrays, weights)
    assert compared("torch", "other", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["weights"]["last: model.bottlenecks"] == pytest.approx(1e-3, rel=1e-3)
    assert told["weights"]["last: model.attention"] == 0
    assert (told["first"], told["verdict"]) == (None, "different")


def test_results_and_predictions_alone_can_be_compared(runs, capsys):
    """What is quickly copied from another machine; digests stand for the weights."""
    (runs / "light").mkdir()
    for name in ("results.jsonl", "predictions.csv"):
        shutil.copy(runs / "torch" / name, runs / "light" / name)
    assert compared("torch", "light") == 0
    output = capsys.readouterr().out
    assert "weights: the same SHA-256" in output
    assert "not compared: no config.yaml" in output
    doctor(runs / "light", "final", sha256={"weights": "0", "predictions": "0"})
    assert compared("torch", "light") == 1
    assert "torch and light differ in their weights" in capsys.readouterr().err
    assert compared("torch", "nowhere") == 2
    assert "nowhere: no run there" in capsys.readouterr().err


def test_what_differs_around_the_numbers_is_told_and_not_judged(runs, capsys):
    shutil.copytree("torch", "other")
    told = results(runs / "other")[0]["provenance"]
    told["machine"]["processor"] = "another one"
    doctor(runs / "other", "start", provenance={**told, "commit": "abc"})
    doctor(runs / "other", "final", seconds=1e6)
    config = (runs / "other/config.yaml").read_text().replace("device: CPU", "device: GPU")
    (runs / "other/config.yaml").write_text(config.replace("seed: 0", "seed: 7"))
    assert compared("torch", "other") == 0
    output = capsys.readouterr().out
    for part in ("run.seed", "commit", "processor", "another one"):
        assert part in output
    assert "run.device" not in output


def test_a_resumed_run_compares_equal(folder, monkeypatch, capsys):
    assert MAINS["mindspore"](["train", *SMALL, "--output", "whole"]) == 0
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_after(patch, 1)
        MAINS["mindspore"](["train", *SMALL, "--output", "broken"])
    assert MAINS["mindspore"](["train", "--resume", "broken", "--no-report"]) == 0
    capsys.readouterr()
    assert compared("whole", "broken") == 0
    assert capsys.readouterr().out.endswith("verdict: the same to the last bit\n")


def test_a_difference_is_relative_to_large_numbers_alone():
    assert difference(0.5, 0.25) == 0.25
    assert difference([100.0, 0.0], [100.0, 1.0]) == 0.01
    assert difference([np.nan, np.inf, 1.0], [np.nan, np.inf, 1.0]) == 0
    assert difference([np.nan, 1.0], [0.0, 1.0]) == np.inf
    assert difference(np.inf, -np.inf) == np.inf


def test_processors_of_one_name_differ_by_family_and_model(tmp_path):
    table = tmp_path / "cpuinfo"
    one = "model\t\t: 17\nmodel name\t: AMD EPYC\ncpu family\t: 25\n"
    table.write_text(one + one.replace("17", "18"))
    assert provenance.processor(table) == "AMD EPYC, family 25, model 17"
    table.write_text("model name: Some CPU\n")
    assert provenance.processor(table) == "Some CPU"
    assert provenance.processor(tmp_path / "none")
