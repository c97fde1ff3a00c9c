"""What the report computes from predictions, weights and labels: NumPy in, NumPy out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def class_deviations(beta: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """(N, C): mean weight of a source in a class minus its mean over all; NaN: no such sample."""
    deviations = np.full((beta.shape[1], count), np.nan)
    for c in np.unique(groups):
        deviations[:, c] = beta[groups == c].mean(0) - beta.mean(0)
    return deviations


@dataclass(frozen=True)
class Reliability:
    """Confidence against accuracy, in equal bins of confidence."""

    counts: np.ndarray
    confidence: np.ndarray  # mean of a bin; NaN where it is empty
    accuracy: np.ndarray
    ece: float


def reliability(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> Reliability:
    """Expected calibration error (Guo et al. 2017): the gap of each bin, weighted by its size."""
    index = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(index, confidence, bins) / counts
        accuracy = np.bincount(index, right, bins) / counts
    gaps = np.nan_to_num(np.abs(accuracy - mean))
    return Reliability(counts, mean, accuracy, float((gaps * counts).sum() / counts.sum()))


def confusion(labels: np.ndarray, predicted: np.ndarray, count: int) -> np.ndarray:
    """(C, C): how many samples of the row's class were taken for the column's."""
    counts = np.zeros((count, count), int)
    np.add.at(counts, (labels, predicted), 1)
    return counts


def confused_pairs(counts: np.ndarray, limit: int) -> list[tuple[int, int]]:
    """(true, predicted), the most frequent mistakes first."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:limit]
    pairs = [divmod(int(flat), len(counts)) for flat in order]
    return [pair for pair in pairs if wrong[pair] > 0]


def classes_of_pairs(counts: np.ndarray, limit: int) -> np.ndarray:
    """At most `limit` classes, those of the most confused pairs, in label order."""
    if len(counts) <= limit:
        return np.arange(len(counts))
    chosen: set[int] = set()
    for pair in confused_pairs(counts, limit * limit):
        if len(chosen | set(pair)) <= limit:
            chosen |= set(pair)
    return np.array(sorted(chosen), int)


def most_deviating(deviations: np.ndarray, limit: int) -> np.ndarray:
    """At most `limit` classes that have samples, those of the largest deviation, in label order."""
    size = np.nan_to_num(np.abs(deviations), nan=-1.0).max(0)
    order = np.argsort(-size, kind="stable")[:limit]
    return np.sort(order[size[order] >= 0])


def most_unusual(beta: np.ndarray, limit: int) -> np.ndarray:
    """The samples whose weights lie farthest from the mean weights."""
    distance = np.linalg.norm(beta - beta.mean(0), axis=1)
    return np.argsort(-distance, kind="stable")[:limit]
