"""Measures by hand-computed values."""

import tracemalloc

import numpy as np
import pytest

from ms_biaten.spec.metrics import (
    SND_ROWS,
    Survey,
    accuracy,
    class_accuracy,
    entropy,
    soft_neighbourhood_density,
    softmax,
)


def test_accuracies():
    predicted, labels = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    assert accuracy(predicted, labels) == 75.0
    assert class_accuracy(np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1])) == 50.0


def test_entropy():
    assert entropy(np.full(4, 0.25)) == pytest.approx(np.log(4))
    assert entropy(np.array([1.0, 0.0])) == pytest.approx(0.0, abs=1e-9)


def test_neighbourhood_density_of_two_clusters():
    """Ten samples in each of two pure classes: nine equal neighbours each."""
    p = np.repeat(np.eye(2), 10, axis=0)
    assert soft_neighbourhood_density(p) == pytest.approx(np.log(9), rel=1e-3)
    assert soft_neighbourhood_density(np.repeat(p, 30, axis=0)) == pytest.approx(
        np.log(299), rel=1e-3
    )
    assert soft_neighbourhood_density(p[:1]) == 0.0


def survey_of(logits, chunk):
    samples, classes = logits.shape
    survey = Survey(samples, 3, classes)
    for start in range(0, samples, chunk):
        part = logits[start : start + chunk]
        own = np.stack([part, -part, part], 1)
        alpha = np.broadcast_to(np.eye(3), (len(part), 3, 3))
        survey.add(part, own, alpha, np.full((len(part), 3), 1 / 3))
    return survey


def test_a_survey_does_not_depend_on_its_chunks(monkeypatch):
    monkeypatch.setattr("ms_biaten.spec.metrics.SND_ROWS", 20)
    logits = np.random.default_rng(0).normal(size=(101, 5)).astype(np.float32)
    labels = np.random.default_rng(1).integers(0, 5, 101)
    one, other = survey_of(logits, 101), survey_of(logits, 7)
    assert one.measures(labels) == pytest.approx(other.measures(labels))
    assert (one.predicted == logits.argmax(1)).all()
    assert one.measures()["entropy"] == pytest.approx(entropy(softmax(logits)).mean(), rel=1e-6)
    assert "accuracy" not in one.measures()
    assert np.allclose(one.alpha, np.eye(3))


def test_a_survey_keeps_no_outputs():
    """Of 20,000 samples and 200 classes, the rows for the density and a few numbers of each."""
    samples, classes, numbers = 20_000, 200, 20
    tracemalloc.start()
    try:
        survey = Survey(samples, 3, classes)
        for _ in range(40):
            part = np.zeros((samples // 40, classes), np.float32)
            own, alpha = np.zeros((len(part), 3, classes)), np.zeros((len(part), 3, 3))
            survey.add(part, own, alpha, alpha[:, 0])
        del part, own, alpha
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 8 * SND_ROWS * classes < kept < 8 * (SND_ROWS * classes + samples * numbers)


def test_baselines():
    logits = np.eye(4)[[0, 1, 2, 3]]
    survey = survey_of(logits, 2)
    found = survey.baselines(("a", "b", "c"), np.arange(4))
    assert found["source a"] == 100.0
    assert found["source b"] == 0.0
    assert found["AVG-ENS"] == 100.0
    assert survey.baselines(("a", "b", "c"), None) == {}
