"""The synthetic `debug` benchmark: a known shift, deterministic, seconds on a CPU.

One latent space holds the classes. A domain is the hour at which it is looked at: the latent
turns and drifts with the hour. Each source has a backbone of its own (a fixed random layer, close
to the others) and heads fitted to its hour, by NumPy alone.
"""

from __future__ import annotations

import numpy as np

from ms_biaten.spec.bank import Bank
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.metrics import softmax
from ms_biaten.spec.weights import Arrays

LATENT, RAW, WIDTH = 10, 48, 16
TRAIN, TARGET = 700, 1000
HOURS = {"dawn": 0.0, "noon": 0.35, "dusk": 0.7, "night": 1.05}


def debug_bank(target: str, view: str = "center") -> Bank:
    """The target's features; a drawn view is the same samples, a little blurred."""
    sources = benchmark("debug").sources(target)
    rng = np.random.default_rng([7, list(HOURS).index(target)])
    latent, labels = _sample(rng, target, TARGET)
    features = np.stack([_backbone(source, latent) for source in sources], 1)
    if view == "drawn":
        features = features + 0.05 * rng.normal(size=features.shape)
    count = benchmark("debug").class_count
    return Bank(
        target=target,
        domains=sources,
        classes=tuple(f"class_{c}" for c in range(count)),
        samples=tuple(f"{target}/{i:04d}" for i in range(TARGET)),
        features=features.astype(np.float32),
        labels=labels,
    )


def debug_source(domain: str) -> Arrays:
    """The heads of one source: a projection common to all, its statistics, a fitted classifier."""
    rng = np.random.default_rng([11, list(HOURS).index(domain)])
    latent, labels = _sample(rng, domain, TRAIN)
    raw = _backbone(domain, latent)
    common = np.random.default_rng(13)
    weight = common.normal(0, RAW**-0.5, (WIDTH, RAW))
    z = raw @ weight.T
    phi = (z - z.mean(0)) / np.sqrt(z.var(0, ddof=1) + 1e-5)
    v, bias = _fit_classifier(phi, labels, common)
    arrays = {
        "bottleneck.weight": weight,
        "bottleneck.bias": np.zeros(WIDTH),
        "bn.weight": np.ones(WIDTH),
        "bn.bias": np.zeros(WIDTH),
        "bn.running_mean": z.mean(0),
        "bn.running_var": z.var(0, ddof=1),
        "fc.weight_g": np.linalg.norm(v, axis=1, keepdims=True),
        "fc.weight_v": v,
        "fc.bias": bias,
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _sample(rng: np.random.Generator, domain: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Latents (count, LATENT) of a domain and their classes."""
    world = np.random.default_rng(3)
    classes = benchmark("debug").class_count
    prototypes = world.normal(0, 1.0, (classes, LATENT))
    planes, _ = np.linalg.qr(world.normal(size=(LATENT, LATENT)))
    drift = world.normal(0, 1.0, LATENT)
    labels = rng.integers(0, classes, count)
    latent = prototypes[labels] + 0.55 * rng.normal(size=(count, LATENT))
    return latent @ _turn(planes, HOURS[domain]) + HOURS[domain] * drift, labels


def _turn(planes: np.ndarray, angle: float) -> np.ndarray:
    """A rotation by `angle` in LATENT / 2 random planes."""
    cos, sin = np.cos(angle), np.sin(angle)
    blocks = np.kron(np.eye(LATENT // 2), np.array([[cos, -sin], [sin, cos]]))
    return planes @ blocks @ planes.T


def _backbone(domain: str, latent: np.ndarray) -> np.ndarray:
    """Raw features (count, RAW): a fixed random layer, mostly common to all domains."""
    own = np.random.default_rng([5, list(HOURS).index(domain)])
    weight = np.random.default_rng(4).normal(0, LATENT**-0.5, (LATENT, RAW))
    weight = weight + 0.3 * own.normal(0, LATENT**-0.5, (LATENT, RAW))
    return np.tanh(latent @ weight)


def _fit_classifier(
    phi: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Softmax regression with smoothed labels, by plain gradient descent."""
    classes = benchmark("debug").class_count
    wanted = 0.9 * np.eye(classes)[labels] + 0.1 / classes
    weight, bias = rng.normal(0, 0.1, (classes, WIDTH)), np.zeros(classes)
    for _ in range(300):
        slope = (softmax(phi @ weight.T + bias) - wanted) / len(phi)
        weight, bias = weight - slope.T @ phi, bias - slope.sum(0)
    return weight, bias
