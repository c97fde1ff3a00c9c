"""DATE's discriminability prior: how densely, and how surely, a source's features gather."""

from __future__ import annotations

import numpy as np

from ms_biaten.spec.neighbours import nearest

NEIGHBOURS = 20  # a sample's habitat, itself included
EPSILON = 1e-5


def habitat_density(similarity: np.ndarray) -> float:
    """Mean similarity (M, k) of samples to their habitat, themselves (the first) left out."""
    return float(similarity[:, 1:].mean(dtype=np.float64))


def habitat_uncertainty(labels: np.ndarray, rows: np.ndarray, classes: int) -> float:
    """Mean entropy of the labels in each habitat `rows` (M, k)."""
    total, count = 0.0, rows.shape[1]
    for row in labels[rows]:
        q = np.bincount(row, minlength=classes) / count
        total -= float((q * np.log(q + EPSILON)).sum())
    return total / len(rows)


def discriminability(features: np.ndarray, labels: np.ndarray, classes: int) -> float:
    """Density over uncertainty; features (M, K) of length 1, labels (M,)."""
    rows, similarity = nearest(features, min(NEIGHBOURS, len(features)), itself=True)
    # Where all habitats are pure the entropy is 0, and less by the epsilon in its logarithm.
    uncertainty = max(habitat_uncertainty(labels, rows, classes), EPSILON)
    return habitat_density(similarity) / uncertainty
