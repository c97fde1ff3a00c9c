"""Collapsed predictions and dead sources: warned about when they begin, and when they end."""

import dataclasses

import numpy as np
import pytest

from ms_biaten.spec import health
from ms_biaten.spec.bank import save_bank
from ms_biaten.spec.debug import debug_bank
from ms_biaten.spec.report.story import read_story
from tests.conftest import SMALL, results
from tests.thin_runs import MAINS

CLASSES = tuple(f"class_{c}" for c in range(10))


def shares(*counts):
    return np.repeat(np.arange(len(counts)), counts)


@pytest.mark.parametrize(
    "counts, collapsed",
    [
        ((92, 1, 1, 1, 1, 1, 1, 1, 1), True),
        ((90, 2, 2, 2, 2, 1, 1), False),  # nine tenths of the way to all of them is 91 %
        ((50, 50), False),
        ((100,), True),
    ],
)
def test_one_class_that_takes_nearly_all(counts, collapsed):
    signs = health.collapse(shares(*counts), CLASSES)
    assert bool(signs) == collapsed
    if collapsed:
        assert f"{counts[0]}% of the samples go to 'class_0'" in signs[0]["text"]


def test_two_classes_may_be_uneven():
    assert not health.collapse(shares(94, 6), CLASSES[:2])
    assert health.collapse(shares(4, 96), CLASSES[:2])


def test_a_source_without_weight():
    signs = health.unused_sources(np.array([0.6, 0.39, 0.01]), ("a", "b", "c"))
    assert [sign["about"] for sign in signs] == ["weight of c"]
    assert not health.unused_sources(np.array([0.6, 0.38, 0.02]), ("a", "b", "c"))
    # DATE's weights do not sum to 1.
    assert not health.unused_sources(np.array([0.006, 0.0038, 0.0002]), ("a", "b", "c"))


def test_a_warning_is_said_when_it_begins_and_when_it_ends():
    sign = health.collapse(shares(100), CLASSES)
    said = []
    before = []
    for now in ([], sign, sign, []):
        health.say_changes(before, {"warnings": now}, said.append)
        before = now
    assert len(said) == 2
    assert said[0].startswith("warning: predictions collapsed: 100% of the samples go to 'class_0'")
    assert said[1] == "no longer: predictions collapsed: 100% of the samples go to 'class_0'"


@pytest.mark.parametrize("framework", MAINS)
def test_a_run_that_collapses_says_so_once_and_keeps_it(folder, capsys, framework):
    """One sample, 1e19 times as large as the others, takes all the variance of its batch."""
    bank = debug_bank("night")
    features = bank.features.astype(np.float32).copy()
    features[123] = 1e19
    save_bank(folder / "bank", dataclasses.replace(bank, features=features))
    arguments = ["train", *SMALL, "--set", "data.bank=bank", "--output", "run"]
    assert MAINS[framework](arguments) == 0
    lines = results(folder / "run")
    assert "warnings" not in lines[0]
    for line in lines[1:]:
        about = [sign["about"] for sign in line["warnings"]]
        assert about == ["predictions", *(f"outputs of {d}" for d in ("dawn", "noon", "dusk"))]
    output = capsys.readouterr().out
    training, table = output.split("\n\n")
    for part in (training, table):
        assert part.count("warning: predictions collapsed: ") == 1
        assert part.count("warning: source dawn is dead: ") == 1
    notes = read_story(folder / "run", "ms-biaten").notes
    assert sum(note.startswith("Warning: predictions collapsed") for note in notes) == 1


def test_a_run_that_goes_well_warns_of_nothing(folder, capsys):
    assert MAINS["torch"](["train", *SMALL, "--output", "run"]) == 0
    assert "warning" not in capsys.readouterr().out
    assert all("warnings" not in line for line in results(folder / "run"))
