"""What is not finite stops a run and is named; the last whole epoch stays on disk."""

import dataclasses
import importlib
import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file

from ms_biaten.spec import guard
from ms_biaten.spec.bank import save_bank
from ms_biaten.spec.config import Config
from ms_biaten.spec.debug import debug_bank
from ms_biaten.spec.workers import Workers
from tests.conftest import SMALL, results
from tests.test_ranks import MSRUN, QUICK, started
from tests.thin_runs import MAINS

BANK = debug_bank("night")
PACKAGES = {"mindspore": "ms_biaten", "torch": "torch_ref"}
TOO_FAST = ["--set", "train.lr=1e30", "--set", "train.clip_norm=0"]


def save_with_row(folder, row, value):
    features = BANK.features.astype(np.float32).copy()
    if row is not None:
        features[row] = value
    save_bank(folder, dataclasses.replace(BANK, features=features))


def stopped(run):
    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    return json.loads((run / "stopped.json").read_text(), parse_constant=refuse)


@pytest.mark.parametrize("framework", MAINS)
def test_a_sample_that_overflows_is_named_and_the_mended_bank_goes_on(folder, capsys, framework):
    """Its features are finite, so that the bank is taken: the products of them are not."""
    main = MAINS[framework]
    save_with_row(folder / "bank", 123, 3e38)
    arguments = ["train", *SMALL, "--set", "train.epochs=1", "--set", "data.bank=bank"]
    assert main([*arguments, "--output", "run"]) == 1
    message = capsys.readouterr().err
    assert "outputs are not finite for 1 of 1000 samples ('night/0123')" in message
    assert "features far above all others: 'night/0123' (3e+38)" in message
    assert "Warning" not in message
    found = stopped(folder / "run")
    assert (found["samples"], found["sample_count"]) == (["night/0123"], 1)
    assert (found["epoch"], found["last_good_epoch"]) == (1, 0)
    assert not (folder / "run/results.jsonl").exists()

    save_with_row(folder / "bank", None, 0)
    assert main(["train", "--resume", "run", "--no-report"]) == 0
    assert results(folder / "run")[-1]["kind"] == "final"
    assert not (folder / "run/stopped.json").exists()


@pytest.mark.parametrize("framework", MAINS)
def test_a_loss_that_is_not_finite_is_told_with_its_samples(folder, capsys, framework):
    assert MAINS[framework](["train", *SMALL, *TOO_FAST, "--output", "run"]) == 1
    message = capsys.readouterr().err
    assert "ce became nan in epoch 1, batch 2 (so did im_loss, intra, loss, grad_norm)" in message
    assert "not finite are 64 of 64 samples ('night/" in message
    assert "a smaller train.lr (now 1e+30) or train.clip_norm=5 (now off)" in message
    found = stopped(folder / "run")
    assert (found["term"], found["epoch"], found["batch"]) == ("ce", 1, 2)
    assert found["values"]["loss"] == "nan"
    assert len(found["samples"]) == found["sample_count"] == 64
    assert set(found["samples"]) <= set(BANK.samples)
    assert not list((folder / "run").glob("checkpoints/*"))


@pytest.mark.parametrize("framework", MAINS)
def test_weights_that_are_not_finite_are_named_with_their_source(folder, capsys, framework):
    """One step in an epoch, whose loss and gradient are finite: only what it makes is not."""
    settings = ("train.batch_size=1000", "train.lr=3e38", "loss.lambda_intra=1e3")
    whole = [part for setting in settings for part in ("--set", setting)]
    whole += ["--set", "train.clip_norm=0"]
    assert MAINS[framework](["train", *SMALL, *whole, "--output", "run"]) == 1
    message = capsys.readouterr().err
    assert (
        "not finite in the weights: model.bottlenecks.weight (source dawn, noon, dusk)" in message
    )
    assert stopped(folder / "run")["term"] == "weights"
    assert not list((folder / "run").glob("checkpoints/*"))


@pytest.mark.parametrize("framework", MAINS)
def test_the_last_whole_epoch_is_kept_and_gone_on_with(folder, capsys, monkeypatch, framework):
    main = MAINS[framework]
    adapter = importlib.import_module(f"{PACKAGES[framework]}.adapt").Adapter
    original, count = adapter.step, iter(range(100))

    def step(self, *arguments):
        record = original(self, *arguments)
        return record | ({"grad_norm": math.inf} if next(count) == 20 else {})

    with monkeypatch.context() as patch:
        patch.setattr(adapter, "step", step)
        assert main(["train", *SMALL, "--output", "run"]) == 1
    message = capsys.readouterr().err
    assert "grad_norm became inf in epoch 2, batch 5; the loss is finite (" in message
    assert "its gradient overflows; run keeps the state after epoch 1" in message
    assert stopped(folder / "run")["last_good_epoch"] == 1
    assert all(
        np.isfinite(a).all()
        for a in load_file(folder / "run/checkpoints/last.safetensors").values()
    )
    assert main(["train", "--resume", "run", "--no-report"]) == 0
    assert not (folder / "run/stopped.json").exists()


def test_a_sample_that_spoils_the_weights_of_all_is_named(folder, capsys):
    """DATE's shares are means over the target: after them no output is finite."""
    save_with_row(folder / "bank", 123, 3e38)
    arguments = ["train", *SMALL, "--method", "date", "--set", "data.bank=bank"]
    assert MAINS["torch"]([*arguments, "--output", "run"]) == 1
    assert "features far above all others: 'night/0123' (3e+38)" in capsys.readouterr().err


def test_a_state_that_is_not_finite_is_never_a_checkpoint(folder, capsys, monkeypatch):
    """Outputs look well: only the next epoch would show it."""
    adapter = importlib.import_module("torch_ref.adapt").Adapter
    original = adapter.state

    def state(self, into=None):
        arrays = original(self, into)
        arrays["momentum.model.bottlenecks.bias"][1] = np.inf
        return arrays

    monkeypatch.setattr(adapter, "state", state)
    arguments = ["--set", "run.select=snd", "--set", "run.checkpoint_seconds=0", "--output", "run"]
    assert MAINS["torch"](["train", *SMALL, *arguments]) == 1
    told = "not finite in the weights: momentum.model.bottlenecks.bias (source noon)"
    assert told in capsys.readouterr().err
    assert not list((folder / "run").glob("checkpoints/*"))


def record_of(rows, **more):
    terms = {"loss": 1.0, "ce": 1.0, "im_loss": -1.0, "intra": -1.0, "grad_norm": 1.0}
    arrays = {"y": np.zeros((rows, 7)), "alpha": np.zeros((rows, 3, 3)), "beta": np.ones((rows, 3))}
    return {**terms, **arrays, **more}


def test_only_the_samples_that_are_not_finite_are_named():
    y = np.zeros((4, 7))
    y[2, 3] = np.inf
    rows = np.array([5, 6, 7, 8])
    with pytest.raises(guard.NotFiniteError) as caught:
        guard.check_step(record_of(4, y=y, im_loss=np.nan), rows, BANK, 0, 0, Workers())
    assert str(caught.value).endswith("not finite are 1 of 4 samples ('night/0007')")
    assert caught.value.found["batch_samples"] == [f"night/000{row}" for row in rows]


def test_a_loss_that_is_not_finite_while_outputs_are_is_told_so():
    with pytest.raises(guard.NotFiniteError, match="the outputs of its samples are finite"):
        guard.check_step(record_of(2, ce=np.inf), np.array([0, 1]), BANK, 0, 0, Workers())
    guard.check_step(record_of(2), np.array([0, 1]), BANK, 0, 0, Workers())


def test_bad_weights_belong_to_a_source_where_they_have_one():
    domains = ("dawn", "noon", "dusk")
    norm = np.zeros(12)
    norm[5] = np.nan
    assert guard.sources_of("model.bottlenecks.norm.weight", norm, domains) == ["noon"]
    assert guard.sources_of("backbones.2.conv1.weight", norm, domains) == ["dusk"]
    shared = np.full((1, 4, 8), np.nan)
    assert guard.sources_of("model.attention.feature.weight", shared, domains) == []
    assert guard.sources_of("model.attention.query.weight", norm, domains) == []


def test_half_precision_is_something_to_try():
    half = dataclasses.replace(Config(), run=dataclasses.replace(Config().run, precision="fp16"))
    assert "--precision fp32" in guard.advice({}, half)
    assert "--precision" not in guard.advice({}, Config())


@pytest.mark.skipif(MSRUN is None, reason="msrun is not beside the interpreter")
def test_all_workers_stop_and_say_why(tmp_path):
    command = f"train {QUICK} {' '.join(TOO_FAST)} --set train.batch_size=97 --output run"
    with started(tmp_path, 2, [command]) as process:
        assert process.wait(120) != 0
    logs = [(tmp_path / f"logs/worker_{worker}.log").read_text() for worker in (0, 1)]
    for log in logs:
        assert "ce became nan in epoch 1, batch 2" in log
        assert "not finite are 97 of 97 samples" in log
        assert "is gone" not in log
    assert stopped(tmp_path / "run")["sample_count"] == 97
