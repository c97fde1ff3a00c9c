"""What one pass over the target says of the model, with labels and without."""

from __future__ import annotations

import numpy as np

from ms_biaten.spec.workers import Workers

# Which way each label-free measure points: +1, larger is better.
LABEL_FREE = {"snd": 1, "im": -1, "entropy": -1}

SND_ROWS = 2000  # density is quadratic in its rows: an even spread of at most this many
SND_TEMPERATURE = 0.05


class Survey:
    """Collects the outputs of one pass over the target, keeping O(M N) numbers, never (M, C)."""

    def __init__(self, samples: int, sources: int, classes: int, first: int = 0):
        """`first`: the row that the first sample to be added has in the target."""
        self.predicted = np.zeros(samples, np.int64)
        self.confidence = np.zeros(samples, np.float32)
        self.beta = np.zeros((samples, sources), np.float32)
        self.finite = np.ones(samples, bool)  # all outputs and weights of the sample
        self.own_predicted = np.zeros((samples, sources), np.int64)
        self.average_predicted = np.zeros(samples, np.int64)
        self._alpha = np.zeros((sources, sources))
        self._entropy = 0.0
        self._mass = np.zeros(classes)
        self._stride = -(-samples // SND_ROWS)
        self._spread: list[np.ndarray] = []
        self._first = self._filled = first

    def add(self, logits: np.ndarray, own: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> None:
        """The next samples: logits (B,C), own (B,N,C), alpha (B,N,N), beta (B,N)."""
        rows = slice(self._filled, self._filled + len(logits))
        p = softmax(logits.astype(np.float64))
        self.predicted[rows] = logits.argmax(1)
        self.confidence[rows] = p.max(1)
        self.beta[rows] = beta
        self.finite[rows] = np.all([finite_rows(x) for x in (logits, own, alpha, beta)], axis=0)
        self.own_predicted[rows] = own.argmax(2)
        self.average_predicted[rows] = own.mean(1).argmax(1)
        self._alpha += alpha.sum(0)
        self._entropy += float(entropy(p).sum())
        self._mass += p.sum(0)
        first = -rows.start % self._stride
        self._spread.append(p[first :: self._stride].copy())  # a view would keep all of p
        self._filled = rows.stop

    def merge(self, workers: Workers) -> None:
        """Each worker has added its own rows; then all know of all, as if one had seen them."""
        if not workers.several:
            return
        own = slice(self._first, self._filled)
        columns = (
            "predicted",
            "confidence",
            "beta",
            "own_predicted",
            "average_predicted",
            "finite",
        )
        for name in columns:
            setattr(self, name, workers.gathered(getattr(self, name)[own]))
        self._alpha = workers.gathered(self._alpha[None]).sum(0)
        self._entropy = float(workers.gathered(np.array([self._entropy])).sum())
        self._mass = workers.gathered(self._mass[None]).sum(0)
        spread = [np.zeros((0, len(self._mass))), *self._spread]
        self._spread = [workers.gathered(np.concatenate(spread))]
        self._first, self._filled = 0, len(self.predicted)

    @property
    def mean_beta(self) -> np.ndarray:
        return self.beta.mean(0, dtype=np.float64)

    @property
    def alpha(self) -> np.ndarray:
        return self._alpha / max(1, self._filled)

    def measures(self, labels: np.ndarray | None = None) -> dict[str, float]:
        """Label-free measures, and accuracies where labels exist (in per cent)."""
        mean_entropy = self._entropy / self._filled
        result = {
            "entropy": mean_entropy,
            "im": mean_entropy - float(entropy(self._mass / self._filled)),
            "snd": soft_neighbourhood_density(np.concatenate(self._spread)),
        }
        if labels is not None:
            result["accuracy"] = accuracy(self.predicted, labels)
            result["class_accuracy"] = class_accuracy(self.predicted, labels)
        return result

    def baselines(self, domains: tuple[str, ...], labels: np.ndarray | None) -> dict[str, float]:
        """Accuracy of each source alone and of their mean logits, as the model stands now."""
        if labels is None:
            return {}
        single = {
            f"source {domain}": accuracy(self.own_predicted[:, i], labels)
            for i, domain in enumerate(domains)
        }
        return {**single, "AVG-ENS": accuracy(self.average_predicted, labels)}


def finite_rows(array: np.ndarray) -> np.ndarray:
    """(B, ...) -> (B,): is all of a row finite?"""
    finite: np.ndarray = np.isfinite(array).reshape(len(array), -1).all(1)
    return finite


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(p + 1e-12)).sum(-1)


def accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    return 100.0 * float((predicted == labels).mean())


def class_accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Mean over the classes that occur, each counted once whatever its size."""
    right = predicted == labels
    return 100.0 * float(np.mean([right[labels == c].mean() for c in np.unique(labels)]))


def soft_neighbourhood_density(p: np.ndarray) -> float:
    """Saito et al. 2021: entropy of each sample's similarity to the others; larger is better."""
    if len(p) < 2:
        return 0.0
    unit = p / np.linalg.norm(p, axis=1, keepdims=True)
    total = 0.0
    for start in range(0, len(unit), 256):
        similar = unit[start : start + 256] @ unit.T / SND_TEMPERATURE
        own = np.arange(len(similar))
        similar[own, start + own] = -np.inf  # a sample is not its own neighbour
        total += float(entropy(softmax(similar)).sum())
    return total / len(unit)
