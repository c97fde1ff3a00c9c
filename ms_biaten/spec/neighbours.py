"""Nearest neighbours by inner product, block by block: never an (M, M) matrix."""

from __future__ import annotations

import numpy as np

BLOCK = 1 << 24  # numbers of a block of similarities


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; a zero row stays zero."""
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def nearest(
    features: np.ndarray, count: int, *, itself: bool, block: int = BLOCK
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the `count` most similar samples, nearest first, and their similarities: (M, count).

    With `itself`, a sample is the first of its own neighbours; without, it is none of them.
    """
    samples = len(features)
    rows = np.empty((samples, count), np.int64)
    similarity = np.empty((samples, count), features.dtype)
    step = max(1, block // samples)
    for start in range(0, samples, step):
        similar = features[start : start + step] @ features.T
        here = np.arange(len(similar))
        similar[here, start + here] = np.inf if itself else -np.inf
        found = np.argpartition(-similar, count - 1, axis=1)[:, :count]
        values = np.take_along_axis(similar, found, 1)
        # By similarity, ties by row: the same on every machine that computes the same numbers.
        order = np.lexsort((found, -values))
        rows[start : start + step] = np.take_along_axis(found, order, 1)
        similarity[start : start + step] = np.take_along_axis(values, order, 1)
    if itself:
        similarity[:, 0] = np.square(features).sum(1)
    return rows, similarity
