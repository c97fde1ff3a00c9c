"""Schedules by hand-computed values."""

import dataclasses

import numpy as np
import pytest

from ms_biaten.spec.loading import load_config
from ms_biaten.spec.schedules import (
    batch_starts,
    epoch_batches,
    is_one_hot,
    learning_rate,
    loss_coefficients,
)


def config(*overrides, profile="paper"):
    return load_config("debug", profile=profile, overrides=overrides)


def test_cosine():
    c = config("train.epochs=10", "train.lr=0.4", "train.lr_min=0.2")
    rates = [learning_rate(c, step, 10) for step in (0, 50, 100)]
    assert rates == pytest.approx([0.4, 0.3, 0.2])


def test_cosine_with_warm_up():
    c = config("train.epochs=10", "train.lr=0.4", "train.warmup_epochs=2")
    rates = [learning_rate(c, step, 5) for step in (0, 4, 9, 10, 30)]
    assert rates == pytest.approx([0.04, 0.2, 0.4, 0.4, 0.2])


def test_inverse_power():
    c = config("train.lr=0.02", profile="official")
    assert learning_rate(c, 0, 1) == 0.02
    # 752 iterations are an epoch of clipart; the released code is at 0.66 of its rate after it.
    assert learning_rate(c, 752, 1) == pytest.approx(0.02 * 0.6566, rel=1e-3)


def test_one_hot_epochs():
    """Counted from 0 here; the paper's second, fourth, ... are one-hot, its first is learned."""
    paper, official = config(), config(profile="official")
    assert [is_one_hot(paper, e) for e in range(5)] == [False, True, False, True, False]
    assert [is_one_hot(official, e) for e in range(5)] == [True, True, False, True, False]
    third = dataclasses.replace(paper, train=dataclasses.replace(paper.train, d_alter=3))
    assert [is_one_hot(third, e) for e in range(6)] == [False, False, True] * 2
    never = config("profile.one_hot_epochs=never")
    assert not any(is_one_hot(never, e) for e in range(6))


def test_loss_coefficients():
    assert loss_coefficients(config("loss.gamma=0.5", "loss.lambda_intra=0.2")) == (0.5, 1.0, 0.2)
    squared = config("loss.gamma=0.5", "profile.ce_weight=gamma_squared")
    assert loss_coefficients(squared)[0] == 0.25
    assert loss_coefficients(config("loss.im=false"))[1] == 0.0
    assert loss_coefficients(config("loss.intra=false"))[2] == 0.0


def test_batches_cover_the_target_once():
    rows = np.concatenate(list(epoch_batches(3, 0, 103, 25)))
    assert sorted(rows) == list(range(103))
    assert [len(b) for b in epoch_batches(3, 0, 103, 25)] == [25, 25, 25, 25, 3]


def test_a_last_batch_of_one_is_left_out():
    assert batch_starts(101, 25) == [0, 25, 50, 75]
    assert [len(b) for b in epoch_batches(3, 0, 101, 25)] == [25, 25, 25, 25]


def test_shuffling_depends_on_seed_and_epoch_alone():
    first, again = (np.concatenate(list(epoch_batches(3, 1, 50, 7))) for _ in range(2))
    assert (first == again).all()
    assert (first != np.concatenate(list(epoch_batches(3, 2, 50, 7)))).any()
    assert (first != np.concatenate(list(epoch_batches(4, 1, 50, 7)))).any()
