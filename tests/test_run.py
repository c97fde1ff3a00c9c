"""A run from start to end: its folder, determinism, resume, selection, targets without labels."""

import csv
import dataclasses
import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import ms_biaten.adapt
from ms_biaten.cli import main
from ms_biaten.spec import algorithm
from ms_biaten.spec.bank import save_bank
from ms_biaten.spec.debug import debug_bank
from ms_biaten.spec.loading import from_tree, read_yaml
from ms_biaten.spec.run import RunFolder
from tests.conftest import ROOT, SMALL, results

LOSSES = ("loss", "ce", "im_loss", "intra", "grad_norm", "lr", "entropy", "im", "snd", "accuracy")


def train(*arguments):
    return main(["train", *SMALL, *arguments])


def checkpoint(run, name="last"):
    from safetensors.numpy import load_file

    return load_file(run / "checkpoints" / f"{name}.safetensors")


def losses(run):
    return [[line.get(key) for key in LOSSES] for line in results(run)]


def same_arrays(one, other):
    return one.keys() == other.keys() and all((one[k] == other[k]).all() for k in one)


def test_a_run_leaves_its_folder(folder, capsys):
    assert train("--output", "run") == 0
    lines = results(folder / "run")
    assert [line["kind"] for line in lines] == ["start", "epoch", "epoch", "final"]
    assert lines[0]["versions"]["framework"] == "mindspore"
    assert lines[0]["baselines"].keys() == {
        "source dawn",
        "source noon",
        "source dusk",
        "AVG-ENS",
    }
    assert [line["one_hot"] for line in lines[1:3]] == [False, True]
    assert {"loss", "accuracy", "label_accuracy", "beta"} <= lines[1].keys()
    config = from_tree(read_yaml(folder / "run/config.yaml"), "saved")
    assert config.train.epochs == 2
    with (folder / "run/predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000
    assert rows[0].keys() == {
        "sample",
        "class",
        "confidence",
        "weight_dawn",
        "weight_noon",
        "weight_dusk",
    }
    weights = [float(rows[0][f"weight_{d}"]) for d in ("dawn", "noon", "dusk")]
    assert sum(weights) == pytest.approx(1.0, abs=1e-5)
    right = sum(
        row["class"] == f"class_{label}"
        for row, label in zip(rows, debug_bank("night").labels, strict=True)
    )
    assert right / 10 == pytest.approx(lines[-1]["accuracy"])
    arrays = checkpoint(folder / "run")
    assert {"clusters.sums", "clusters.mass", "pseudo_labels"} <= arrays.keys()
    assert any(name.startswith("momentum.") for name in arrays)
    output = capsys.readouterr().out
    assert "source dawn" in output
    assert "run folder: run" in output


def test_a_new_run_takes_a_new_folder(folder):
    for name in ("bi_aten-paper-seed0", "bi_aten-paper-seed0-2"):
        assert train("--set", "train.epochs=1") == 0
        assert (folder / "runs/debug/night" / name / "predictions.csv").is_file()


def kill_after_the_first_epoch(arguments, cwd):
    """Starts a run and kills it, without a chance to clean up, once its first epoch is on disk."""
    process = subprocess.Popen([sys.executable, *map(str, arguments)], cwd=cwd)
    checkpoint_file = cwd / "killed/checkpoints/last.safetensors"
    deadline = time.monotonic() + 120
    while not checkpoint_file.exists():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()


def test_processes_agree_to_the_last_bit_and_a_killed_one_resumes(folder, command):
    script = ROOT / "ms_biaten/train.py"
    epochs = ["--config", "debug", "--set", "train.epochs=4", "--no-report"]
    for name in ("one", "two"):
        done = command(script, *epochs, "--output", name, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert losses(folder / "one") == losses(folder / "two")
    assert same_arrays(checkpoint(folder / "one"), checkpoint(folder / "two"))

    often = ["--set", "run.checkpoint_seconds=0"]
    kill_after_the_first_epoch([script, *epochs, *often, "--output", "killed"], folder)
    assert len(results(folder / "killed")) < 6
    done = command(script, "--resume", "killed", "--no-report", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "resumed after epoch" in done.stdout
    assert losses(folder / "one") == losses(folder / "killed")
    assert same_arrays(checkpoint(folder / "one"), checkpoint(folder / "killed"))


class StoppedError(Exception):
    pass


def stop_after(monkeypatch, epochs):
    """Breaks a run in the middle of an epoch, as a kill would."""
    original = ms_biaten.adapt.Adapter.step
    count = iter(range(10**6))

    def step(self, *arguments):
        if next(count) == epochs * 16 + 5:
            raise StoppedError
        return original(self, *arguments)

    monkeypatch.setattr(ms_biaten.adapt.Adapter, "step", step)


@pytest.mark.parametrize(
    ("profile", "clip_norm"), [("paper", 5.0), ("official", 5.0), ("paper", 0.05)]
)
def test_a_resumed_run_equals_an_unbroken_one(folder, monkeypatch, profile, clip_norm):
    """The last of them clips every gradient."""
    arguments = ["--profile", profile, "--set", "train.epochs=3", "--set", "run.select=snd"]
    arguments += ["--set", f"train.clip_norm={clip_norm}"]
    assert train("--output", "whole", *arguments) == 0
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(StoppedError):
            train("--output", "broken", *arguments)
    assert [line["kind"] for line in results(folder / "broken")] == ["start", "epoch"]
    assert main(["train", "--resume", "broken", "--no-report"]) == 0
    assert losses(folder / "whole") == losses(folder / "broken")
    for name in ("last", "best"):
        one, other = (checkpoint(folder / run, name) for run in ("whole", "broken"))
        assert same_arrays(one, other)
    whole, broken = ((folder / run / "predictions.csv").read_text() for run in ("whole", "broken"))
    assert whole == broken


def test_results_past_the_checkpoint_are_forgotten(folder, monkeypatch):
    """A kill may fall between the line of an epoch and its checkpoint."""
    assert train("--output", "whole", "--set", "train.epochs=3") == 0
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(StoppedError):
            train("--output", "broken", "--set", "train.epochs=3")
    path = folder / "broken/results.jsonl"
    extra = json.loads(path.read_text().splitlines()[-1]) | {"epoch": 2, "loss": 99.0}
    path.write_text(path.read_text() + json.dumps(extra) + "\n")
    assert main(["train", "--resume", "broken", "--no-report"]) == 0
    assert losses(folder / "whole") == losses(folder / "broken")


def test_checkpoints_are_written_when_due_and_at_the_end(folder, monkeypatch):
    saved = []
    original = RunFolder.save_checkpoint

    def save(self, arrays, position, name="last"):
        saved.append(position["epoch"])
        original(self, arrays, position, name)

    monkeypatch.setattr(RunFolder, "save_checkpoint", save)
    for seconds, expected in ((0, [1, 2, 3]), (1000, [3])):
        saved.clear()
        settings = ("--set", "train.epochs=3", "--set", f"run.checkpoint_seconds={seconds}")
        assert train("--output", f"every-{seconds}", *settings) == 0
        assert saved == expected


def test_a_finished_run_is_not_run_again(folder, capsys):
    assert train("--output", "run") == 0
    before = (folder / "run/results.jsonl").read_text()
    assert main(["train", "--resume", "run", "--no-report"]) == 0
    assert "finished already" in capsys.readouterr().out
    assert (folder / "run/results.jsonl").read_text() == before


def test_resume_with_other_settings_is_refused(folder, capsys):
    assert train("--output", "run") == 0
    before = (folder / "run/results.jsonl").read_text()
    assert train("--resume", "run", "--set", "train.lr=0.5") == 2
    assert "started with other settings: train.lr" in capsys.readouterr().err
    assert train("--output", "run", "--resume") == 0
    assert (folder / "run/results.jsonl").read_text() == before


def test_interrupting_says_how_to_go_on(folder, monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(ms_biaten.adapt.Adapter, "step", interrupted)
    with pytest.raises(SystemExit) as caught:
        train("--output", "run")
    assert caught.value.code == 130
    assert "ms-biaten train --resume run" in capsys.readouterr().out


def test_a_loss_that_is_not_finite_stops_the_run(folder, monkeypatch, capsys):
    original = ms_biaten.adapt.Adapter.step
    count = iter(range(100))

    def step(self, *arguments):
        record = original(self, *arguments)
        return record | ({"ce": float("nan")} if next(count) == 20 else {})

    monkeypatch.setattr(ms_biaten.adapt.Adapter, "step", step)
    assert train("--output", "run") == 1
    assert "ce became nan in epoch 2, batch 5" in capsys.readouterr().err
    assert checkpoint(folder / "run")  # the state after epoch 1 is kept


def test_an_error_after_an_epoch_does_not_mix_two_states(folder, monkeypatch):
    """The checkpoint of epoch 1 is not on disk yet when epoch 2 fails to be recorded."""
    original = RunFolder.write

    def write(self, line):
        if line.get("epoch") == 2:
            raise OSError("no space left")
        original(self, line)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write", write)
        assert train("--output", "run") == 1
    assert train("--resume", "run") == 0
    assert train("--output", "whole") == 0
    assert same_arrays(checkpoint(folder / "run"), checkpoint(folder / "whole"))


def unlabelled(folder):
    bank = dataclasses.replace(debug_bank("night"), labels=None)
    save_bank(folder / "bank", bank)
    return ["--set", "data.bank=bank"]


def test_a_target_without_labels(folder, capsys):
    assert train("--output", "run", *unlabelled(folder)) == 0
    lines = results(folder / "run")
    assert all("accuracy" not in line for line in lines)
    assert all(np.isfinite([line[k] for k in ("entropy", "im", "snd")]).all() for line in lines)
    output = capsys.readouterr().out
    assert "no target labels: no accuracy" in output
    assert "SND" in output
    assert (folder / "run/predictions.csv").is_file()


def test_labels_do_not_leak_into_training(folder):
    """With and without labels, the same weights: labels only ever measure."""
    assert train("--output", "with") == 0
    assert train("--output", "without", *unlabelled(folder)) == 0
    assert same_arrays(checkpoint(folder / "with"), checkpoint(folder / "without"))


def test_oracle_selection_needs_labels_and_is_marked(folder, capsys):
    assert train("--output", "none", "--set", "run.select=oracle", *unlabelled(folder)) == 2
    assert "oracle needs target labels" in capsys.readouterr().err
    assert train("--output", "run", "--set", "run.select=oracle") == 0
    final = results(folder / "run")[-1]
    assert (final["rule"], final["oracle"]) == ("oracle", True)
    assert "ORACLE" in capsys.readouterr().out


@pytest.mark.parametrize("rule", ["snd", "im", "entropy", "oracle"])
def test_the_rule_picks_the_best_epoch(rule):
    values = [0.5, 0.9, 0.7, 0.1]
    name, best = ("accuracy" if rule == "oracle" else rule), 2
    if rule in ("im", "entropy"):  # smaller is better
        best = 4
    position = {"best": None}
    for epoch, value in enumerate(values, 1):
        algorithm.choose(rule, {"epoch": epoch, name: value}, position)
    assert position["best"]["epoch"] == best


def test_the_last_epoch_is_the_default_rule(folder):
    assert train("--output", "run") == 0
    final = results(folder / "run")[-1]
    assert (final["rule"], final["oracle"], final["selected_epoch"]) == ("last", False, 2)
    assert not (folder / "run/checkpoints/best.safetensors").exists()


@pytest.mark.parametrize("method", ["avg_ens", "bn_only"])
def test_controls_train_nothing(folder, method):
    assert train("--output", "run", "--method", method) == 0
    lines = results(folder / "run")
    assert [line["kind"] for line in lines] == ["start", "final"]
    start, final = lines
    if method == "avg_ens":
        assert final["accuracy"] == start["baselines"]["AVG-ENS"]
    else:
        assert final["accuracy"] > start["baselines"]["AVG-ENS"]


def test_controls_stand_in_one_table(folder, capsys):
    assert train("--output", "run", "--controls") == 0
    table = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    names = [line[:16].strip() for line in table[1:9]]
    assert names[:4] == ["source dawn", "source noon", "source dusk", "AVG-ENS"]
    assert names[4:] == ["BN re-estimated", "uniform weights", "ATEN", "Bi-ATEN"]
    for method in ("bn_only", "uniform", "aten"):
        assert results(folder / "run/controls" / method)[-1]["kind"] == "final"
    before = (folder / "run/controls/aten/results.jsonl").read_text()
    assert (
        main(["train", "--resume", "run", "--controls", "--no-report"]) == 0
    )  # finished: only the table
    assert (folder / "run/controls/aten/results.jsonl").read_text() == before


def test_uniform_weights_stay_uniform(folder):
    assert train("--output", "run", "--method", "uniform") == 0
    assert results(folder / "run")[-1]["beta"] == pytest.approx([1 / 3] * 3)


def test_a_saved_config_runs_again(folder):
    assert train("--output", "run") == 0
    assert main(["train", "--config", "run/config.yaml", "--output", "again", "--no-report"]) == 0
    assert losses(folder / "run") == losses(folder / "again")


def test_a_half_made_folder_can_be_resumed(folder):
    """Killed before its first checkpoint, a run starts anew in its folder."""
    assert train("--output", "run") == 0
    whole = losses(folder / "run")
    shutil.rmtree(folder / "run/checkpoints")
    (folder / "run/checkpoints").mkdir()
    (folder / "run/results.jsonl").unlink()
    assert main(["train", "--resume", "run", "--no-report"]) == 0
    assert losses(folder / "run") == whole
