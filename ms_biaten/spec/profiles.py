"""The named choices in which the paper and the authors' released code differ.

A choice names one small function that stands beside the equation it changes. The YAML files in
`configs/profiles/` give each profile's values with their sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PROFILES = ("paper", "official")


@dataclass(frozen=True)
class Profile:
    """Where the paper and the released code differ, one field for each choice."""

    name: str = "paper"
    projections: Literal["per_domain", "shared"] = "per_domain"
    aten_projections: Literal["per_domain", "shared"] = "shared"
    heads: Literal["mean_then_softmax", "softmax_then_mean"] = "mean_then_softmax"
    gradient: Literal["through", "detached"] = "through"
    intra_loss: Literal["ensemble", "ensemble_and_own"] = "ensemble"
    ce_weight: Literal["gamma", "gamma_squared"] = "gamma"
    label_distance: Literal["cosine", "euclidean"] = "cosine"
    centroid_weight: Literal["ensemble", "own"] = "ensemble"
    label_refresh: Literal["per_epoch", "per_batch"] = "per_epoch"
    one_hot_epochs: Literal["every_d_alter", "odd_and_first", "never"] = "every_d_alter"
    evaluate_with: Literal["learned", "one_hot"] = "learned"
    lr_schedule: Literal["cosine", "inverse_power", "inverse_progress"] = "cosine"
    view: Literal["center", "drawn"] = "center"
