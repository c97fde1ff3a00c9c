"""The table of cases: every function of an equation, with every choice of a profile.

Sizes are distinct primes, so that no transposed axis can pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

B, N, C, D, E, H = 7, 3, 11, 5, 13, 2

TOLERANCE = {"float32": 1e-5, "float64": 1e-6}


@dataclass(frozen=True)
class Choice:
    """One entry of a table of choices."""

    table: str  # module.TABLE
    name: str


@dataclass(frozen=True)
class Case:
    name: str
    equation: str
    function: str  # module.function
    inputs: Callable[[np.random.Generator], dict[str, np.ndarray]]
    grads: tuple[str, ...] = ()  # inputs
    constants: dict[str, Any] = field(default_factory=dict)
    tolerance: dict[str, float] = field(default_factory=lambda: TOLERANCE)
    why: str = ""  # a tolerance other than the common one has a reason
    with_gradient: int | None = None  # the first of its outputs; None: all


def normal(*shape, scale=1.0):
    return lambda rng: scale * rng.normal(size=shape)


def simplex(*shape):
    def draw(rng):
        x = rng.uniform(0.1, 1.0, size=shape)
        return x / x.sum(-1, keepdims=True)

    return draw


def unit_rows(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def arrays(**draws):
    return lambda rng: {name: draw(rng) for name, draw in draws.items()}


def labels(rng):
    return rng.integers(0, C, size=B)


def mass_with_an_empty_class(rng):
    mass = rng.uniform(0.5, 2.0, size=(N, C))
    mass[:, 4] = 0.0
    return mass


def sums_with_an_empty_class(rng):
    sums = rng.normal(size=(N, C, D))
    sums[:, 4] = 0.0
    return sums


def with_a_zero_vector(*shape):
    def draw(rng):
        x = rng.normal(size=shape)
        x[0, 1] = 0.0
        return x

    return draw


def clusters(rng):
    """phi, beta, and centroids with their products; class 4 is empty, its centroid zero.

    Its penalty is 3 and not 1e30, beside which no other error could be seen.
    """
    mu = sums_with_an_empty_class(rng)
    penalty = np.zeros((1, C))
    penalty[0, 4] = 3.0
    products = np.einsum("icd,jcd->ijc", mu, mu).reshape(N * N, C)
    beta = simplex(B, N)(rng)
    phi = rng.normal(size=(B, N, D))
    centers = mu.swapaxes(0, 1).reshape(C, N * D)
    return {"phi": phi, "beta": beta, "centers": centers, "products": products, "penalty": penalty}


def mixed(rng):
    drawn = clusters(rng)
    mu = drawn["centers"].reshape(C, N, D).swapaxes(0, 1)
    shared = {"beta": drawn["beta"], "mu": mu, "products": drawn["products"]}
    return {"mixed": rng.normal(size=(B, D)), **shared}


def mixtures(rng):
    return {name: array for name, array in clusters(rng).items() if name != "penalty"}


def projection(groups, inputs):
    return {"weight": normal(groups, inputs, H * E, scale=0.3), "bias": normal(groups, 1, H * E)}


CASES = [
    Case(
        "cross_outputs",
        "Eq. (1)",
        "attention.cross_outputs",
        arrays(phi=normal(B, N, D), weight=normal(N, D, C), bias=normal(N, C)),
        ("phi",),
    ),
    Case(
        "own_outputs",
        "y^ii",
        "attention.own_outputs",
        arrays(phi=normal(B, N, D), weight=normal(N, D, C), bias=normal(N, C)),
        ("phi",),
    ),
    *(
        Case(
            f"output_keys-{name}",
            "Eq. (2)",
            "attention.output_keys",
            arrays(outputs=normal(B, N, N, C), **projection(groups, C)),
            ("outputs", "weight", "bias"),
            {"heads": H},
        )
        for name, groups in (("per_domain", N), ("shared", 1))
    ),
    Case(
        "intra_similarity",
        "Eq. (2)",
        "attention.intra_similarity",
        arrays(features=normal(N, B, H, E), outputs=normal(N, B, N, H, E)),
        ("features", "outputs"),
    ),
    Case(
        "intra_similarity-zero_vector",
        "Eq. (2)",
        "attention.intra_similarity",
        arrays(features=with_a_zero_vector(N, B, H, E), outputs=normal(N, B, N, H, E)),
        ("outputs",),
    ),
    *(
        Case(
            f"{form}_similarity-{name}",
            "Eq. (2)",
            f"quick.{form}_similarity",
            arrays(
                features=normal(N, B, H, E),
                outputs=normal(N, B, N, C),  # sources first
                weight=normal(groups, C, H * E),
                bias=normal(groups, 1, H * E),
            ),
            ("features", "outputs", "weight", "bias"),
        )
        for form in ("keyed", "keyless")
        for name, groups in (("per_domain", N), ("shared", 1))
    ),
    *(
        Case(
            f"intra_weights-{heads}-{temperature}",
            "Eq. (3)",
            "attention.intra_weights",
            arrays(similarity=lambda rng: rng.uniform(-1, 1, size=(B, N, N, H))),
            ("similarity",),
            {"temperature": temperature, "reduce_heads": Choice("attention.HEADS", heads)},
        )
        for heads in ("mean_then_softmax", "softmax_then_mean")
        for temperature in (1.0, 0.1)
    ),
    Case(
        "assemble",
        "Eq. (4)",
        "attention.assemble",
        arrays(alpha=simplex(B, N, N), outputs=normal(B, N, N, C)),
        ("alpha", "outputs"),
    ),
    *(
        Case(
            f"intra_loss-{choice}",
            "Eq. (5)",
            "losses.intra_loss",
            arrays(assembled=normal(B, N, C), own=normal(B, N, C)),
            ("assembled", "own") if choice == "ensemble_and_own" else ("assembled",),
            {"epsilon": 1e-5, "choice": Choice("losses.INTRA_LOSS", choice)},
        )
        for choice in ("ensemble", "ensemble_and_own")
    ),
    *(
        Case(
            f"im_loss-{form}-{name}",
            "Eq. (6)",
            f"{form}.im_loss",
            arrays(logits=draw),
            ("logits",),
            {"epsilon": epsilon},
        )
        for form in ("losses", "quick")
        for name, draw, epsilon in (
            ("ensemble", normal(B, C), 1e-5),
            ("sources", normal(B, N, C), 1e-5),
            ("confident", normal(B, C, scale=20.0), 1e-5),
            ("epsilon_1e-3", normal(B, C), 1e-3),
        )
    ),
    *(
        Case(
            f"losses-{choice}",
            "Eqs. (5), (6), (15), (16)",
            "quick.losses",
            arrays(y=normal(B, C), assembled=normal(B, N, C), own=normal(B, N, C), labels=labels),
            ("y", "assembled", "own") if choice == "ensemble_and_own" else ("y", "assembled"),
            {
                "epsilon": 1e-5,
                "smoothing": 0.1,
                "weights": (0.3, 0.7, 1.9),
                "choice": Choice("losses.INTRA_LOSS", choice),
            },
            with_gradient=1,
        )
        for choice in ("ensemble", "ensemble_and_own")
    ),
    *(
        Case(
            f"feature_keys-{name}",
            "Eq. (7)",
            "attention.feature_keys",
            arrays(phi=normal(B, N, D), **projection(groups, D)),
            ("phi", "weight", "bias"),
            {"heads": H},
        )
        for name, groups in (("per_domain", N), ("shared", 1))
    ),
    Case(
        "joint_query",
        "Eq. (8)",
        "attention.joint_query",
        arrays(phi=normal(B, N, D), weight=normal(N * D, H * E, scale=0.3), bias=normal(H * E)),
        ("phi", "weight", "bias"),
        {"heads": H},
    ),
    *(
        Case(
            f"inter_weights-{form}-{heads}-{temperature}",
            "Eq. (9)",
            f"{form}.inter_weights",
            arrays(query=normal(B, H, E), keys=normal(N, B, H, E)),
            ("query", "keys"),
            {"temperature": temperature, "reduce_heads": Choice("attention.HEADS", heads)},
        )
        for form in ("attention", "quick")
        for heads in ("mean_then_softmax", "softmax_then_mean")
        for temperature in (1.0, 0.1)
    ),
    Case(
        "ensemble",
        "Eq. (10)",
        "attention.ensemble",
        arrays(beta=simplex(B, N), outputs=normal(B, N, C)),
        ("beta", "outputs"),
    ),
    *(
        Case(
            f"centroid_weight-{name}",
            "Eq. (11)",
            f"pseudo_label.{name}_probability",
            arrays(y=normal(B, C), own=normal(B, N, C)),
        )
        for name in ("ensemble", "own")
    ),
    Case(
        "weighted_sums",
        "Eq. (11)",
        "pseudo_label.weighted_sums",
        arrays(p=simplex(B, N, C), phi=normal(B, N, D)),
    ),
    Case(
        "centroids-empty_class",
        "Eq. (11)",
        "pseudo_label.centroids",
        arrays(sums=sums_with_an_empty_class, mass=mass_with_an_empty_class),
    ),
    Case("by_class", "Eq. (12)", "pseudo_label.by_class", arrays(mu=normal(N, C, D))),
    Case("gram", "Eq. (12)", "pseudo_label.gram", arrays(mu=normal(N, C, D))),
    Case(
        "empty_penalty",
        "Eq. (14)",
        "pseudo_label.empty_penalty",
        arrays(mass=mass_with_an_empty_class),
    ),
    Case("mixed_centroids", "Eq. (12)", "pseudo_label.mixed_centroids", mixed),
    Case(
        "mixed_feature",
        "Eq. (13)",
        "pseudo_label.mixed_feature",
        arrays(phi=normal(B, N, D), beta=simplex(B, N)),
    ),
    Case("mixtures", "Eqs. (12), (13)", "quick.mixtures", mixtures),
    *(
        Case(
            f"class_distances-{name}",
            "Eqs. (12)-(14)",
            "pseudo_label.class_distances",
            clusters,
            (),
            {"choice": Choice("pseudo_label.LABEL_DISTANCE", name)},
        )
        for name in ("cosine", "euclidean")
    ),
    Case("nearest_class", "Eq. (14)", "pseudo_label.nearest_class", arrays(distances=normal(B, C))),
    Case(
        "cross_entropy",
        "Eq. (15)",
        "losses.cross_entropy",
        arrays(logits=normal(B, C), labels=labels),
        ("logits",),
        {"smoothing": 0.1},
    ),
    Case(
        "cross_entropy-confident",
        "Eq. (15)",
        "losses.cross_entropy",
        arrays(logits=normal(B, C, scale=20.0), labels=labels),
        ("logits",),
        {"smoothing": 0.1},
    ),
    Case(
        "inter_loss",
        "Eq. (15)",
        "losses.inter_loss",
        arrays(ce=normal(1), im=normal(1)),
        ("ce", "im"),
        {"ce_weight": 0.3, "im_weight": 1.0},
    ),
    Case(
        "total_loss",
        "Eq. (16)",
        "losses.total_loss",
        arrays(inter=normal(1), intra=normal(1)),
        ("inter", "intra"),
        {"intra_weight": 0.2},
    ),
    Case(
        "weight_norm",
        "classifier",
        "heads.weight_norm",
        arrays(weight_v=normal(C, D), weight_g=normal(C, 1)),
        ("weight_v", "weight_g"),
    ),
    Case(
        "sigmoid_weights",
        "DECISION",
        "methods.weights.sigmoid_weights",
        arrays(scalars=normal(N)),
        ("scalars",),
    ),
    Case(
        "transferability",
        "DATE",
        "methods.weights.transferability",
        arrays(scores=normal(B, N, N)),
        ("scores",),
    ),
    Case(
        "importance",
        "DATE",
        "methods.weights.importance",
        arrays(share=simplex(B, N), prior=simplex(N)),
        ("share", "prior"),
    ),
    *(
        Case(
            name, "SHOT family", f"methods.clustering.{name}", arrays(phi=normal(B, N, D)), ("phi",)
        )
        for name in ("unit_features", "unit_features_with_one")
    ),
    Case(
        "cosine_labels",
        "SHOT family",
        "methods.clustering.cosine_labels",
        lambda rng: {
            "features": unit_rows(rng.normal(size=(B, N, D))),
            "mu": rng.normal(size=(N, C, D)),
            "penalty": np.where(np.arange(N * C).reshape(N, C) % 4, 0.0, 1e30),
        },
    ),
    Case(
        "consistency_loss",
        "CAiDA, L_crc",
        "methods.losses.consistency_loss",
        arrays(weighted=normal(B, N, C), labels=labels),
        ("weighted",),
    ),
    Case(
        "diversity_loss",
        "DATE, L_dc",
        "methods.losses.diversity_loss",
        arrays(scores=normal(B, N, N), prior=simplex(N)),
        ("scores", "prior"),
    ),
]
