"""Two runs, number by number: where they part first, how far apart they end, and in what.

A difference is |a - b|, that of two tensors the largest of theirs, divided by the largest number on
either side where that is above 1. Seconds, versions and machines are told and never judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.history import Line, check_lines, read_lines
from ms_biaten.spec.loading import flatten, from_tree, to_tree
from ms_biaten.spec.reading import read_yaml
from ms_biaten.spec.report.story import read_predictions
from ms_biaten.spec.run import PLACE
from ms_biaten.spec.weights import read_safetensors

# Not numbers of the method: what they say stands in other rows, or changes from run to run.
ASIDE = ("kind", "seconds", "versions", "provenance", "sha256", "warnings", "rule")
CHECKPOINTS = ("last", "best")
DEPTH = 4  # of lists and objects in a line

Pair = tuple[Any, Any]


@dataclass
class Comparison:
    runs: tuple[str, str]
    settings: dict[str, Pair] | None  # None: one of them has no config.yaml
    versions: dict[str, Pair]
    machine: dict[str, Pair]  # and the code
    data: dict[str, Pair]  # digests
    first: dict[str, Any] | None = None  # epoch, term and both values
    terms: dict[str, float] = field(default_factory=dict)  # largest difference over all lines
    weights: dict[str, float] | None = None  # the same by group of tensors; None: no checkpoints
    predictions: dict[str, float] | None = None
    digests: dict[str, bool] = field(default_factory=dict)  # equal? of weights and predictions
    accuracy: Pair = (None, None)
    unlike: list[str] = field(default_factory=list)  # what only one of them has

    @property
    def largest(self) -> float:
        found = [*self.terms.values(), *(self.weights or {}).values()]
        return max([*found, (self.predictions or {}).get("largest", 0.0)], default=0.0)

    @property
    def moved(self) -> int:
        """Samples that get another class: a difference, however small the numbers are."""
        return int((self.predictions or {}).get("other_class", 0))

    @property
    def same_bits(self) -> bool:
        return self.within(0)

    def within(self, tolerance: float) -> bool:
        """Other digests of what is not at hand say nothing of how far apart it is."""
        known = tolerance > 0 or all(self.digests.values())
        return not self.unlike and not self.moved and self.largest <= tolerance and known

    def verdict(self, tolerance: float) -> str:
        if self.same_bits:
            return "the same to the last bit"
        return f"the same within {tolerance:g}" if self.within(tolerance) else "different"

    def as_json(self, tolerance: float) -> dict[str, Any]:
        judged = {"largest": self.largest, "tolerance": tolerance}
        return {**asdict(self), **judged, "verdict": self.verdict(tolerance)}


def compare(one: Path, other: Path) -> Comparison:
    ours, theirs = lines_of(one), lines_of(other)
    start = [lines.get(("start", 0), {}) for lines in (ours, theirs)]
    made = [line.get("provenance", {}) for line in start]
    final = [lines.get(("final", math.inf), {}) for lines in (ours, theirs)]
    code = [{k: m.get(k) for k in ("commit", "clean")} | m.get("machine", {}) for m in made]
    settings = [settings_of(run) for run in (one, other)]
    found = Comparison(
        (str(one), str(other)),
        differing(*settings) if all(settings) else None,
        differing(*(line.get("versions", {}) for line in start)),
        differing(*code),
        differing(*(digests_of(m) for m in made)),
        accuracy=(final[0].get("accuracy"), final[1].get("accuracy")),
    )
    compare_lines(found, ours, theirs)
    compare_weights(found, one, other)
    compare_predictions(found, one, other)
    sums = [line.get("sha256") or {} for line in final]
    for what, known in (("weights", found.weights), ("predictions", found.predictions)):
        if known is None and sums[0].get(what) and sums[1].get(what):
            found.digests[what] = sums[0][what] == sums[1][what]
    return found


# -- reading --------------------------------------------------------------------------------------


def lines_of(run: Path) -> dict[tuple[str, float], Line]:
    """The lines by kind and epoch."""
    lines = read_lines(run / "results.jsonl")
    if not lines:
        raise UserError(f"{run}: no run there (no results.jsonl); name the folder of a run")
    check_lines(lines, run / "results.jsonl")
    return {(line["kind"], line.get("epoch", math.inf)): line for line in lines}


def settings_of(run: Path) -> dict[str, Any]:
    """Without those that say where it happened; nothing where the folder has no config."""
    path = run / "config.yaml"
    if not path.is_file():
        return {}
    tree = to_tree(from_tree(read_yaml(path), str(path)))
    return {key: value for key, value in flatten(tree) if key not in PLACE}


def digests_of(made: Mapping[str, Any]) -> dict[str, Any]:
    """Of the data and of the weights that training began with."""
    return {**dict(flatten(made.get("data", {}))), "start": made.get("start")}


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Pair]:
    keys = {**one, **other}
    return {k: (one.get(k), other.get(k)) for k in keys if one.get(k) != other.get(k)}


# -- comparing ------------------------------------------------------------------------------------


def compare_lines(found: Comparison, ours: Mapping[Any, Line], theirs: Mapping[Any, Line]) -> None:
    for kind, epoch in sorted({**ours, **theirs}, key=lambda key: key[1]):
        place = kind if kind != "epoch" else f"epoch {epoch}"
        pair = ours.get((kind, epoch)), theirs.get((kind, epoch))
        if pair[0] is None or pair[1] is None:
            found.unlike.append(f"only one of them has the line of {place}")
            continue
        one, other = dict(numbers(pair[0])), dict(numbers(pair[1]))
        for term in {**one, **other}:
            if term not in one or term not in other:
                found.unlike.append(f"only one of them has '{term}' in the line of {place}")
                continue
            apart = difference(one[term], other[term])
            if apart and found.first is None:
                found.first = {"line": place, "term": term, "values": (one[term], other[term])}
            name = term.split(".")[0]  # one row for all numbers of a list
            found.terms[name] = max(apart, found.terms.get(name, 0.0))


def numbers(line: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a line: beta.0, alpha.1.2, baselines.AVG-ENS; nothing of ours is deeper."""
    if name.count(".") > DEPTH:
        return
    if isinstance(line, dict):
        for key, value in line.items():
            if name or key not in ASIDE:
                yield from numbers(value, f"{name}.{key}" if name else key)
    elif isinstance(line, list):
        for place, value in enumerate(line):
            yield from numbers(value, f"{name}.{place}")
    elif isinstance(line, int | float):
        yield name, float(line)


def compare_weights(found: Comparison, one: Path, other: Path) -> None:
    for name in CHECKPOINTS:
        paths = [run / "checkpoints" / f"{name}.safetensors" for run in (one, other)]
        if not all(path.is_file() for path in paths):
            continue
        ours, theirs = (read_safetensors(path)[0] for path in paths)
        found.weights = found.weights or {}
        for tensor in {**ours, **theirs}:
            if tensor not in ours or tensor not in theirs:
                found.unlike.append(f"only one of them has the tensor {tensor}")
            elif ours[tensor].shape != theirs[tensor].shape:
                found.unlike.append(f"{tensor} has another shape")
            else:
                group = f"{name}: {group_of(tensor)}"
                apart = difference(ours[tensor], theirs[tensor])
                found.weights[group] = max(apart, found.weights.get(group, 0.0))


def group_of(tensor: str) -> str:
    """model.attention, backbones.0, momentum, clusters, pseudo_labels."""
    parts = tensor.split(".")
    return ".".join(parts[:2]) if parts[0] in ("model", "backbones") else parts[0]


def compare_predictions(found: Comparison, one: Path, other: Path) -> None:
    ours, theirs = (read_predictions(run / "predictions.csv") for run in (one, other))
    if ours is None or theirs is None:
        return
    if (ours.samples, ours.domains) != (theirs.samples, theirs.domains):
        found.unlike.append("the predictions are of other samples or sources")
        return
    apart = [difference(ours.confidence, theirs.confidence), difference(ours.beta, theirs.beta)]
    found.predictions = {
        "samples": len(ours.samples),
        "other_class": sum(a != b for a, b in zip(ours.names, theirs.names, strict=True)),
        "largest": max(apart),
    }


def difference(one: Any, other: Any) -> float:
    """As the head of this file says; equal values that are not finite do not differ."""
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    apart = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not apart.any():
        return 0.0
    if not np.isfinite(a[apart]).all() or not np.isfinite(b[apart]).all():
        return math.inf
    scale = max(1.0, *(float(np.abs(x[np.isfinite(x)]).max()) for x in (a, b)))
    return float(np.abs(a[apart] - b[apart]).max()) / scale
