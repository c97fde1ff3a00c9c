"""52 steps of Algorithm 1 in both frameworks: losses, lr, weights, statistics, pseudo labels."""

import functools
from typing import get_args, get_type_hints

import numpy as np
import pytest

from ms_biaten.spec.loading import load_config
from ms_biaten.spec.profiles import PROFILES, Profile
from parity_tests.cases import TOLERANCE
from parity_tests.harness import MODES
from parity_tests.trajectory import METHODS, differences, follow, trajectory_config

# One step away from the paper in each direction that a profile can take.
FLIPS = [
    (field, value)
    for field, kind in get_type_hints(Profile).items()
    for value in get_args(kind)
    if value != getattr(Profile(), field)
]


@functools.lru_cache
def torch_run(profile, overrides=()):
    return follow("torch", trajectory_config(profile, overrides))


def flip(field, value):
    """Overrides of a flipped field, and of the run that it is compared with."""
    base = ("train.epochs=3", *(("method=aten",) if field == "aten_projections" else ()))
    return (*base, f"profile.{field}={value}"), base


@pytest.mark.parametrize("method", ["bi_aten", "aten", "uniform"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("profile", PROFILES)
def test_trajectory(profile, mode, method):
    overrides = (f"method={method}",)
    config = trajectory_config(profile, (*overrides, f"run.mode={mode}"))
    errors = differences(follow("mindspore", config), torch_run(profile, overrides))
    worst = max(errors, key=errors.get)
    assert errors[worst] <= TOLERANCE["float32"], (worst, errors[worst])


@pytest.mark.parametrize(
    "overrides",
    [
        ("train.weight_decay=0.01", "train.nesterov=true"),
        ("train.warmup_epochs=1", "train.lr_min=0.001", "train.clip_norm=0.3"),
        ("attention.temperature=0.1", "loss.epsilon=0.001", "loss.label_smoothing=0.3"),
        ("loss.im=false", "train.clip_norm=0"),
        ("loss.intra=false", "train.momentum=0.0"),
        ("attention.width=29",),  # wide enough for the cosines without keys
    ],
)
def test_every_setting_agrees(overrides):
    overrides = (*overrides, "train.epochs=2", "run.mode=pynative")
    config = trajectory_config("paper", overrides)
    errors = differences(follow("mindspore", config), torch_run("paper", overrides))
    worst = max(errors, key=errors.get)
    assert errors[worst] <= TOLERANCE["float32"], (worst, errors[worst])


OPTIONS = [
    ("method=decision", "method.weights=aten", "method.label_mix=per_instance"),
    ("method=decision", "method.weights=aten", "method.gradient=through"),
    ("method=date", "method.weights=aten", "method.date_beta=alone"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "weights"), METHODS)
def test_methods(name, weights, mode):
    """26 steps: losses, weights of the sources, pseudo labels, parameters."""
    overrides = (f"method={name}", f"method.weights={weights}", "train.epochs=2")
    config = trajectory_config("paper", (*overrides, f"run.mode={mode}"))
    errors = differences(follow("mindspore", config), torch_run("paper", overrides))
    worst = max(errors, key=errors.get)
    assert errors[worst] <= TOLERANCE["float32"], (worst, errors[worst])


@pytest.mark.parametrize("overrides", OPTIONS)
def test_options_of_methods(overrides):
    """Each agrees between the frameworks, and moves the trajectory."""
    # Sharp weights: even ones would give the same labels whichever way they are mixed.
    common = ("train.epochs=2", "attention.temperature=0.1")
    plain, overrides = (*overrides[:2], *common), (*overrides, *common)
    ours = follow("mindspore", trajectory_config("paper", (*overrides, "run.mode=pynative")))
    theirs = torch_run("paper", overrides)
    errors = differences(ours, theirs)
    worst = max(errors, key=errors.get)
    assert errors[worst] <= TOLERANCE["float32"], (worst, errors[worst])
    base = torch_run("paper", plain)
    moved = [np.abs(theirs[n] - base[n]).max() for n in theirs if n.split()[-1] in ("loss", "ce")]
    assert max(moved) >= 10 * TOLERANCE["float32"]


@pytest.mark.parametrize(("field", "value"), FLIPS)
def test_every_choice_agrees(field, value):
    overrides, _ = flip(field, value)
    config = trajectory_config("paper", (*overrides, "run.mode=pynative"))
    errors = differences(follow("mindspore", config), torch_run("paper", overrides))
    worst = max(errors, key=errors.get)
    assert errors[worst] <= TOLERANCE["float32"], (worst, errors[worst])


@pytest.mark.parametrize(("field", "value"), FLIPS)
def test_every_choice_is_seen(field, value):
    """A choice must move the trajectory by ten tolerances, or agreement would prove nothing."""
    overrides, base = flip(field, value)
    flipped, plain = torch_run("paper", overrides), torch_run("paper", base)
    common = {
        name: (flipped[name], plain[name])
        for name in flipped.keys() & plain.keys()
        if flipped[name].shape == plain[name].shape and flipped[name].dtype == plain[name].dtype
    }
    moved = differences(
        {n: pair[0] for n, pair in common.items()}, {n: pair[1] for n, pair in common.items()}
    )
    losses = max(value for name, value in moved.items() if name.split()[-1] in SEEN)
    assert losses >= 10 * TOLERANCE["float32"]


SEEN = ("loss", "beta", "alpha", "y", "entropy", "lr")


def test_the_official_profile_differs_from_the_paper_in_every_field_but_two():
    same = {"projections", "aten_projections"}
    paper, official = (load_config("debug", profile=name).profile for name in PROFILES)
    for field in get_type_hints(Profile):
        assert (getattr(paper, field) == getattr(official, field)) == (field in same), field
