"""The debug benchmark does its work: adaptation must beat what there was before."""

import numpy as np
import pytest

from ms_biaten.cli import main
from ms_biaten.spec.debug import HOURS, debug_bank, debug_source
from ms_biaten.spec.experiments.methods import ABLATIONS
from tests.conftest import results

QUICK = [
    "--config",
    "debug",
    "--set",
    "train.epochs=6",
    "--set",
    "run.mode=pynative",
    "--no-report",
]


@pytest.mark.parametrize("target", HOURS)
def test_bi_aten_beats_the_average_and_the_best_source(folder, target):
    assert main(["train", *QUICK, "--target", target, "--output", "run"]) == 0
    start, *_, final = results(folder / "run")
    assert final["accuracy"] > max(start["baselines"].values()) + 1.0


@pytest.mark.parametrize("profile", ["paper", "official"])
def test_both_profiles_adapt(folder, profile):
    assert main(["train", *QUICK, "--profile", profile, "--output", "run"]) == 0
    start, *_, final = results(folder / "run")
    assert final["accuracy"] > start["baselines"]["AVG-ENS"] + 15


@pytest.mark.parametrize("row", ABLATIONS[1:], ids=lambda row: row.title)
def test_an_ablation_changes_the_run(folder, row):
    short = [*QUICK, "--set", "train.epochs=2"]
    overrides = [part for key, v in row.settings for part in ("--set", f"{key}={v}")]
    assert main(["train", *short, "--output", "full"]) == 0
    assert main(["train", *short, *overrides, "--output", "without"]) == 0
    full, without = (results(folder / run)[-2] for run in ("full", "without"))
    assert abs(full["loss"] - without["loss"]) > 1e-3


def test_it_is_deterministic():
    one, other = debug_bank("night"), debug_bank("night")
    assert (one.features == other.features).all()
    assert all((debug_source("dawn")[k] == v).all() for k, v in debug_source("dawn").items())


def test_its_backbones_differ_and_its_classes_all_occur():
    bank = debug_bank("night")
    assert np.abs(bank.features[:, 0] - bank.features[:, 1]).mean() > 0.05
    assert set(bank.labels) == set(range(7))
