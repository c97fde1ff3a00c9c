"""The methods beside Bi-ATEN: which weight module each takes, and what that starts from."""

from __future__ import annotations

import numpy as np

from ms_biaten.spec.config import Config
from ms_biaten.spec.shapes import Sizes, attention_shapes, groups, initial_attention, start_of
from ms_biaten.spec.weights import Arrays

NATIVE = {"shot": "equal", "decision": "sigmoid", "caida": "softmax", "date": "importance"}


def is_plugged(config: Config) -> bool:
    return config.method.name in NATIVE


def weights_name(config: Config) -> str:
    """The entry of `methods.weights.WEIGHTS`."""
    method = config.method
    if method.weights == "native":
        return NATIVE[method.name]
    if method.weights == "uniform":
        return "equal"
    return (
        "aten_times_prior" if (method.name, method.date_beta) == ("date", "times_prior") else "aten"
    )


def weights_shapes(config: Config, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    name, N = weights_name(config), sizes.sources
    joined = sizes.heads * sizes.embedding
    count = groups(config.profile.aten_projections, sizes)
    prior: dict[str, tuple[int, ...]] = {"weights.prior": (N,)}
    attention: dict[str, tuple[int, ...]] = {
        "weights.feature.weight": (count, sizes.width, joined),
        "weights.feature.bias": (count, 1, joined),
        "weights.query.weight": (N * sizes.width, joined),
        "weights.query.bias": (joined,),
    }
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "equal": {},
        "sigmoid": {"weights.scalars": (N,)},
        "softmax": {"weights.scalars": (N,)},
        "importance": {
            "weights.domain.weight_v": (N, sizes.width),
            "weights.domain.weight_g": (N, 1),
            "weights.domain.bias": (N,),
            "weights.share": (N,),
            **prior,
        },
        "aten": attention,
        "aten_times_prior": {**attention, **prior},
    }
    return shapes[name]


def model_shapes(config: Config, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """The whole model of a run: the heads of all sources, and what its method adds."""
    N, C, R, D = sizes.sources, sizes.classes, sizes.raw, sizes.width
    norm = ("weight", "bias", "running_mean", "running_var")
    own = weights_shapes if is_plugged(config) else attention_shapes
    return {
        "bottlenecks.weight": (N, R, D),
        "bottlenecks.bias": (N, 1, D),
        **{f"bottlenecks.norm.{name}": (N * D,) for name in norm},
        "classifiers.weight": (N, D, C),
        "classifiers.bias": (N, C),
        **own(config, sizes),
    }


def initial_arrays(config: Config, sizes: Sizes) -> Arrays:
    """What is not a source's: of the attention, or of a method's weight module."""
    return (initial_weights if is_plugged(config) else initial_attention)(config, sizes)


def initial_weights(config: Config, sizes: Sizes) -> Arrays:
    """Drawn by NumPy, so that both frameworks start from the same numbers."""
    rng = np.random.default_rng([config.run.seed, 0x5EED])
    shapes = weights_shapes(config, sizes)
    arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
    if config.method.name == "decision" and "weights.scalars" in shapes:
        arrays["weights.scalars"] = rng.uniform(-1, 1, sizes.sources)
    elif config.method.name == "caida" and "weights.scalars" in shapes:
        # Xavier's normal start of a layer with N inputs and one output.
        arrays["weights.scalars"] = rng.normal(0, np.sqrt(2 / (sizes.sources + 1)), sizes.sources)
    if "weights.domain.weight_v" in shapes:
        v = rng.uniform(-1, 1, shapes["weights.domain.weight_v"]) / np.sqrt(sizes.width)
        arrays["weights.domain.weight_v"] = v
        arrays["weights.domain.weight_g"] = np.linalg.norm(v, axis=1, keepdims=True)
    for name in shapes:
        if ".feature." in name or ".query." in name:
            arrays[name] = start_of(rng, config, name, shapes)
    return {name: array.astype(np.float32) for name, array in arrays.items()}
