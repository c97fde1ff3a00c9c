"""Sizes of a model, and the arrays that its attention starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ms_biaten.spec.config import Config
from ms_biaten.spec.weights import Arrays


@dataclass(frozen=True)
class Sizes:
    """N sources, C classes, R raw width, D bottleneck width, H heads of width E."""

    sources: int
    classes: int
    raw: int
    width: int
    heads: int
    embedding: int

    @classmethod
    def of(cls, config: Config, sources: int, classes: int) -> Sizes:
        model, attention = config.model, config.attention
        return cls(sources, classes, model.raw_width, model.width, attention.heads, attention.width)


def groups(choice: str, sizes: Sizes) -> int:
    """How many projections there are: one for all sources, or one for each."""
    return {"shared": 1, "per_domain": sizes.sources}[choice]


def attention_shapes(config: Config, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Parameters of the attention; a projection has one group for all sources, or one for each."""
    joined = sizes.heads * sizes.embedding
    query = {
        "attention.query.weight": (sizes.sources * sizes.width, joined),
        "attention.query.bias": (joined,),
    }
    if config.method.name == "bi_aten":
        count = groups(config.profile.projections, sizes)
        return {
            "attention.feature.weight": (count, sizes.width, joined),
            "attention.feature.bias": (count, 1, joined),
            "attention.output.weight": (count, sizes.classes, joined),
            "attention.output.bias": (count, 1, joined),
            **query,
        }
    if config.method.name == "aten":
        count = groups(config.profile.aten_projections, sizes)
        return {
            "attention.feature.weight": (count, sizes.width, joined),
            "attention.feature.bias": (count, 1, joined),
            **query,
        }
    return {}


def cluster_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """What a checkpoint keeps of the centroids: weighted sums of features, and their weights."""
    N, C, D = sizes.sources, sizes.classes, sizes.width
    return {"clusters.sums": (N, C, D), "clusters.mass": (N, C)}


def initial_attention(config: Config, sizes: Sizes) -> Arrays:
    """Drawn by NumPy, so that both frameworks start from the same numbers.

    The paper is silent; as in the released code, W^F and W^O are normal with a small deviation,
    biases and W^QF uniform within 1 / sqrt(fan-in).
    """
    rng = np.random.default_rng([config.run.seed, 0xA7E4])
    shapes = attention_shapes(config, sizes)
    return {name: start_of(rng, config, name, shapes) for name in shapes}


def start_of(
    rng: np.random.Generator, config: Config, name: str, shapes: dict[str, tuple[int, ...]]
) -> np.ndarray:
    """One array of an attention: W^F and W^O normal, biases and W^QF uniform."""
    if name.endswith("weight") and "query" not in name:
        drawn = rng.normal(0.0, config.attention.init_std, shapes[name])
    else:
        fan_in = shapes[name.replace("bias", "weight")][-2]
        drawn = rng.uniform(-1.0, 1.0, shapes[name]) / np.sqrt(fan_in)
    return drawn.astype(np.float32)
