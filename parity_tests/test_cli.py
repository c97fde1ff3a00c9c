"""Both command lines on the same config: the same run, and each resumes the other's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import ms_biaten.cli
import torch_ref.cli
import torch_ref.engine
from parity_tests.cases import TOLERANCE
from parity_tests.harness import error

import ms_biaten.engine  # isort: skip  (after the harness, which settles the device)

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {"mindspore": "ms_biaten/train.py", "torch": "torch_ref/train.py"}
MAINS = {"mindspore": ms_biaten.cli.main, "torch": torch_ref.cli.main}
ENGINES = {"mindspore": ms_biaten.engine.Engine, "torch": torch_ref.engine.Engine}
LIMIT = TOLERANCE["float32"]
NUMBERS = ("loss", "ce", "im_loss", "intra", "grad_norm", "lr", "entropy", "im", "snd", "beta")


def start(framework, folder, *arguments):
    done = subprocess.run(
        [sys.executable, str(ROOT / SCRIPTS[framework]), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr


def lines(run):
    return [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]


def compare(one, other):
    """Results, weights and predictions of two run folders."""
    assert [line["kind"] for line in lines(one)] == [line["kind"] for line in lines(other)]
    for left, right in zip(lines(one), lines(other), strict=True):
        for name in NUMBERS:
            if name in left:
                assert error(left[name], right[name]) <= LIMIT, (left["epoch"], name)
    weights, others = (load_file(run / "checkpoints/last.safetensors") for run in (one, other))
    assert weights.keys() == others.keys()
    for name in weights:
        if name == "pseudo_labels":
            assert np.array_equal(weights[name], others[name])
        else:
            assert error(weights[name], others[name]) <= LIMIT, name
    classes, other_classes = (
        [row.split(",")[1] for row in (run / "predictions.csv").read_text().splitlines()]
        for run in (one, other)
    )
    assert classes == other_classes


@pytest.mark.parametrize("profile", ["paper", "official"])
def test_both_command_lines_agree(tmp_path, profile):
    arguments = [
        "--config",
        "debug",
        "--set",
        "train.epochs=3",
        "--profile",
        profile,
        "--no-report",
    ]
    for framework in SCRIPTS:
        start(framework, tmp_path, *arguments, "--output", framework)
    compare(tmp_path / "mindspore", tmp_path / "torch")


class StoppedError(Exception):
    pass


@pytest.mark.parametrize(("first", "second"), [("torch", "mindspore"), ("mindspore", "torch")])
def test_one_framework_resumes_the_others_run(tmp_path, monkeypatch, first, second):
    """Stopped in its second epoch, a run goes on in the other framework to the same end."""
    monkeypatch.chdir(tmp_path)
    settings = ["--config", "debug", "--set", "train.epochs=3", "--set", "run.mode=pynative"]
    settings.append("--no-report")
    assert MAINS[first](["train", *settings, "--output", "whole"]) == 0
    original, count = ENGINES[first].step, iter(range(100))

    def step(self, *arguments):
        if next(count) == 20:
            raise StoppedError
        return original(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(ENGINES[first], "step", step)
        MAINS[first](["train", *settings, "--output", "passed_on"])
    assert len(lines(tmp_path / "passed_on")) == 2
    assert MAINS[second](["train", "--resume", "passed_on", "--no-report"]) == 0
    compare(tmp_path / "whole", tmp_path / "passed_on")
