"""CAiDA's pseudo labels: unsure samples lean on a confident anchor nearby."""

from __future__ import annotations

import numpy as np

from ms_biaten.spec.neighbours import nearest, unit_rows

HOPS = 70  # of a walk, before it settles for the first neighbour
LISTED = 8  # neighbours that are kept of every sample; a walk beyond them looks again
OWN_MEAN, OWN_SPREAD = 0.85, 0.15  # of a sample's own share in its mixture with the anchor


def probability_margin(p: np.ndarray) -> np.ndarray:
    """How far the most probable class is ahead: (M,) from p (M,C)."""
    top = np.partition(p, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def distance_margin(distances: np.ndarray) -> np.ndarray:
    """How far the nearest centroid is ahead: (M,) from distances (M,C)."""
    near = np.partition(distances, 1, axis=1)[:, :2]
    return near[:, 1] - near[:, 0]


def confident_samples(p: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """All but those that are in the lower half by both margins: (M,) bool."""
    half = len(p) // 2
    unsure = np.zeros((2, len(p)), bool)
    unsure[0, np.argsort(probability_margin(p), kind="stable")[:half]] = True
    far = np.argsort(-distance_margin(distances), kind="stable")
    unsure[1, far[half:]] = True
    return ~unsure.all(0)


def anchors(features: np.ndarray, confident: np.ndarray) -> np.ndarray:
    """Every sample's anchor (M,): the first confident one on its walk from neighbour to neighbour.

    A walk goes to the nearest sample that it has not visited, by the cosine of `features` (M,R).
    """
    unit = unit_rows(features)
    listed, _ = nearest(unit, min(LISTED, len(unit) - 1), itself=False)
    return np.array([_walk(row, unit, listed, confident) for row in range(len(unit))])


def _walk(row: int, unit: np.ndarray, listed: np.ndarray, confident: np.ndarray) -> int:
    here, visited = row, {row}
    for _ in range(min(HOPS, len(unit) - 1)):
        there = next((int(n) for n in listed[here] if int(n) not in visited), None)
        if there is None:
            similar = unit @ unit[here]
            similar[list(visited)] = -np.inf
            there = int(similar.argmax())
        if confident[there]:
            return there
        visited.add(there)
        here = there
    return int(listed[row, 0])


def cosine_distances(features: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    return 1 - unit_rows(features) @ unit_rows(centroids).T


def anchored_labels(
    p: np.ndarray, mixed: np.ndarray, raw: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Labels (M,) from p (M,C), mixed features (M,D) and mixed backbone features (M,R)."""
    f = unit_rows(np.concatenate([mixed, np.ones((len(mixed), 1), mixed.dtype)], axis=1))
    soft = p.T @ f / (1e-8 + p.sum(0))[:, None]
    distances = cosine_distances(f, soft)
    first = distances.argmin(1)
    anchor = anchors(raw, confident_samples(p, distances))
    own = rng.normal(OWN_MEAN, OWN_SPREAD, (len(f), 1)).astype(f.dtype)
    leaning = own * f + (1 - own) * f[anchor]

    classes = p.shape[1]
    counts = np.bincount(first, minlength=classes)
    sums = np.zeros((classes, f.shape[1]), f.dtype)
    np.add.at(sums, first, leaning)
    distances = cosine_distances(leaning, sums / np.maximum(counts, 1)[:, None])
    distances[:, counts == 0] = np.inf  # a class without members has no centroid
    return distances.argmin(1)
