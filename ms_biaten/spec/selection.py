"""The command `select`: which run and epoch would be chosen without looking at labels?

Where labels exist, it also says what that choice costs against the best one, and how well each
criterion orders the epochs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ms_biaten.spec import console
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.history import History, Line, find_runs, read_history
from ms_biaten.spec.metrics import LABEL_FREE
from ms_biaten.spec.target import folder_of

CRITERIA = ("im", "snd", "entropy")


@dataclass(frozen=True)
class Candidate:
    """Weights that could be chosen: those of a run after an epoch."""

    run: Path
    epoch: int
    measures: Line


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="runs, or folders with runs below them"
    )


def select_command(options: argparse.Namespace, backend: str, program: str) -> None:
    histories = [read_history(path) for path in find_runs(options.runs)]
    if not any(candidates_of(history) for history in histories):
        raise UserError(f"{options.runs[0]}: no epoch is finished there yet; go on with --resume")
    for title, group in by_target(histories).items():
        console.say(comparison(title, group))
    if any("accuracy" in c.measures for history in histories for c in candidates_of(history)):
        console.say(
            "labels only judge the criteria: regret is what a choice loses against the best epoch "
            "of all,\nrank corr. is Spearman's between criterion and accuracy (1: the same order)"
        )


def by_target(histories: Sequence[History]) -> dict[str, list[History]]:
    """Measures of different targets or banks say nothing about each other: one group for each."""
    groups: dict[str, list[History]] = {}
    for history in histories:
        config = history.config
        bank = folder_of(config.data.bank, config)
        title = f"{config.data.benchmark} -> {config.target}" + (f" ({bank})" if bank else "")
        groups.setdefault(title, []).append(history)
    return groups


def candidates_of(history: History) -> list[Candidate]:
    """Every trained epoch; of a method that trains nothing, its one result."""
    lines = history.epochs
    if not history.planned and history.final:
        lines = [{**history.final, "epoch": 0}]
    return [Candidate(history.path, line["epoch"], line) for line in lines]


def comparison(title: str, histories: Sequence[History]) -> str:
    """The table of one target."""
    candidates = [c for history in histories for c in candidates_of(history)]
    text = [f"{title}: {_count(len(histories), 'run')}, {_count(len(candidates), 'epoch')}"]
    text += [
        f"unfinished, used as far as it goes: {history.path} ({history.reached})"
        for history in histories
        if history.final is None
    ]
    if not candidates:
        return "\n".join([*text, ""])
    labelled = all("accuracy" in c.measures for c in candidates)
    chosen = {name: best(candidates, name, LABEL_FREE[name]) for name in CRITERIA}
    oracle = best(candidates, "accuracy", 1) if labelled else None
    width = max(len(str(c.run)) for c in (*chosen.values(), oracle) if c)
    heads = f"{'criterion':9}  {'run':{width}}  epoch    value"
    text.append(heads + ("  accuracy  regret  rank corr." if labelled else ""))
    for name, choice in chosen.items():
        if choice is None:
            text.append(f"{name:9}  no finite value")
            continue
        row = f"{name:9}  {choice.run!s:{width}}  {choice.epoch:5}  {choice.measures[name]:7.3f}"
        if oracle:
            reached, possible = choice.measures["accuracy"], oracle.measures["accuracy"]
            finite = [c.measures for c in candidates if math.isfinite(c.measures[name])]
            agreement = spearman(
                [LABEL_FREE[name] * measures[name] for measures in finite],
                [measures["accuracy"] for measures in finite],
            )
            shown = "-" if math.isnan(agreement) else f"{agreement:.2f}"
            row += f"  {reached:8.1f}  {possible - reached:6.1f}  {shown:>10}"
        text.append(row)
    if oracle:
        text.append(
            f"{'ORACLE':9}  {oracle.run!s:{width}}  {oracle.epoch:5}  {'':7}  "
            f"{oracle.measures['accuracy']:8.1f}  chosen with the labels, not a fair result"
        )
    return "\n".join([*text, ""])


def best(candidates: Sequence[Candidate], name: str, sign: int) -> Candidate | None:
    """The first of the best; a measure that is not finite is never chosen."""
    finite = [c for c in candidates if math.isfinite(c.measures[name])]
    return max(finite, key=lambda c: sign * c.measures[name], default=None)


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Rank correlation; NaN where one side is constant."""
    a, b = ranks(one), ranks(other)
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale else math.nan


def ranks(values: Sequence[float]) -> np.ndarray:
    """1 for the smallest; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
