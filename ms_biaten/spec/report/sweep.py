"""A sweep over lambda and gamma: its record, and the map that Fig. 7 of the paper draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.history import read_lines

MOST = 100  # values of a setting: a larger map cannot be read


@dataclass(frozen=True)
class SweepMap:
    lambdas: list[float]
    gammas: list[float]
    accuracy: np.ndarray  # (lambdas, gammas); NaN: failed, or never run
    failed: np.ndarray  # (lambdas, gammas), of bool


def sweep_map(lines: Iterable[Mapping[str, Any]]) -> SweepMap:
    """Cells of {"lambda_intra", "gamma", "accuracy"}; several of one cell are averaged.

    An accuracy of None is a run that failed, and one failed run makes a cell failed.
    """
    cells: dict[tuple[float, float], list[float]] = {}
    for line in lines:
        value = line["accuracy"]
        key = (float(line["lambda_intra"]), float(line["gamma"]))
        cells.setdefault(key, []).append(math.nan if value is None else float(value))
    lambdas, gammas = (sorted({key[axis] for key in cells}) for axis in (0, 1))
    if max(len(lambdas), len(gammas)) > MOST or not all(map(math.isfinite, lambdas + gammas)):
        raise ValueError(f"more than {MOST} values of a setting, or one that is not finite")
    accuracy = np.full((len(lambdas), len(gammas)), np.nan)
    failed = np.zeros(accuracy.shape, bool)
    for (lam, gamma), values in cells.items():
        where = lambdas.index(lam), gammas.index(gamma)
        accuracy[where] = np.mean(values)
        failed[where] = math.isnan(accuracy[where])
    return SweepMap(lambdas, gammas, accuracy, failed)


SWEPT = ("loss.lambda_intra", "loss.gamma")


def cell_of(line: Mapping[str, Any], config: Config) -> Mapping[str, Any] | None:
    """A line of a plain list of cells, or of `experiment fig7`: then of this target and profile."""
    if "overrides" not in line:
        return line
    place = (line["target"], line["profile"])
    if place != (config.target, config.profile.name) or set(line["overrides"]) != set(SWEPT):
        return None  # another experiment's, or another target's: they share a record
    lam, gamma = (line["overrides"][name] for name in SWEPT)
    accuracy = None if "failed" in line else line["accuracy"]
    return {"lambda_intra": lam, "gamma": gamma, "accuracy": accuracy}


def read_sweep(path: Path, config: Config) -> SweepMap:
    if not path.is_file():
        raise UserError(f"--sweep {path}: no such file; name the record of a sweep")
    try:
        cells = [cell for line in read_lines(path) if (cell := cell_of(line, config)) is not None]
        found = sweep_map(cells)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{path}: expected JSON lines with lambda_intra, gamma and accuracy ({error!r})"
        ) from None
    if not cells:
        raise UserError(
            f"{path}: holds no line of a sweep of target '{config.target}', {config.profile.name} "
            "profile; `experiment fig7` makes one"
        )
    return found
