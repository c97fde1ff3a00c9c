"""Everything a report tells, gathered from the run's folder and its bank, and what is missing."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ms_biaten.spec.bank import Bank
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.cells import from_cell
from ms_biaten.spec.checks import is_text
from ms_biaten.spec.console import METHOD_TITLES
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.history import History, Line, check_sources, read_history
from ms_biaten.spec.reading import read_bytes, read_json
from ms_biaten.spec.target import open_names


@dataclass(frozen=True)
class Predictions:
    samples: tuple[str, ...]
    names: tuple[str, ...]  # of the predicted classes
    confidence: np.ndarray  # (M,)
    domains: tuple[str, ...]
    beta: np.ndarray  # (M, N)


@dataclass(frozen=True)
class Story:
    history: History
    controls: dict[str, History]  # by method, in the order of a table
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    predictions: Predictions | None
    predicted: np.ndarray | None  # (M,) indices into `classes`
    labels: np.ndarray | None  # (M,)
    notes: list[str] = field(default_factory=list)  # what is missing, and what to do about it


def read_story(path: Path, program: str) -> Story:
    history = read_history(path)
    notes = []
    if history.final is None:
        notes.append(
            f"This run is not finished: its results reach {history.reached}. "
            f"Go on with: {program} train --resume {path}"
        )
    notes += warnings_of(history)
    predictions = read_predictions(path / "predictions.csv")
    if predictions is None and history.final is not None:
        notes.append("predictions.csv is gone: nothing can be said of single samples.")
    controls: dict[str, History] = {}
    for place in sorted((path / "controls").glob("*/config.yaml")):
        try:
            control = read_history(place.parent)
        except UserError as error:
            notes.append(f"A control is left out. {error}")
            continue
        controls[control.config.method.name] = control
        if control.final is None:
            notes.append(f"The control {place.parent.name} is not finished: {control.reached}.")

    bank = _bank_of(history, predictions, notes)
    domains = _domains_of(history, bank, predictions)
    check_sources(_lines_of(history), len(domains), path / "results.jsonl")
    classes = bank.classes if bank else tuple(sorted(set(predictions.names if predictions else ())))
    index = {name: c for c, name in enumerate(classes)}
    return Story(
        history,
        {name: controls[name] for name in METHOD_TITLES if name in controls},
        domains,
        classes,
        predictions,
        np.array([index[name] for name in predictions.names]) if predictions else None,
        bank.labels if bank else None,
        notes,
    )


def warnings_of(history: History) -> list[str]:
    """What the guard found: why the run stopped, and the signs that stand at its end."""
    notes, stopped = [], history.path / "stopped.json"
    if stopped.is_file():
        found = read_json(stopped, "delete it")
        if not isinstance(found, dict) or not all(is_text(found.get(k)) for k in ("what", "try")):
            raise UserError(f"{stopped}: does not say why the run stopped; delete it")
        notes.append(f"This run stopped: {found['what']}. What to try: {found['try']}.")
    signs = (history.last or {}).get("warnings", [])
    return notes + [f"Warning: {sign['text']}. What to try: {sign['try']}." for sign in signs]


def read_predictions(path: Path) -> Predictions | None:
    if not path.is_file():
        return None
    try:
        text = read_bytes(path, "a table").decode("utf-8", "surrogateescape")
        heads, *rows = csv.reader(io.StringIO(text, newline=""))
        if heads[:3] != ["sample", "class", "confidence"] or len(heads) < 4 or not rows:
            raise ValueError("other columns, or no row")
        numbers = np.array([row[2:] for row in rows], float)
        if numbers.shape[1] != len(heads) - 2 or not np.isfinite(numbers).all():
            raise ValueError("a row of another length, or a number that is not finite")
    except (ValueError, IndexError, csv.Error) as error:
        raise UserError(
            f"{path}: expected the table of sample, class, confidence and weights that a run "
            f"writes ({error}); restore it, or delete it to leave it out"
        ) from None
    domains = tuple(head.removeprefix("weight_") for head in heads[3:])
    samples, names = (tuple(from_cell(row[column]) for row in rows) for column in (0, 1))
    return Predictions(samples, names, numbers[:, 0], domains, numbers[:, 1:])


def _bank_of(history: History, predictions: Predictions | None, notes: list[str]) -> Bank | None:
    """The bank's names and labels, where it is still there and still the one that was run."""
    try:
        bank = open_names(history.config)
    except UserError as error:
        notes.append(
            f"The target's bank cannot be opened, so nothing here is measured with labels beyond "
            f"what the run wrote down ({error})."
        )
        return None
    if predictions is None:
        return bank
    same = bank.samples == predictions.samples and bank.domains == predictions.domains
    if not same or not set(predictions.names) <= set(bank.classes):
        notes.append(
            "The target's bank is not the one that was run (other samples, sources or classes): "
            "its labels are not used."
        )
        return None
    return bank


def _lines_of(history: History) -> list[Line]:
    ends = ([line] if line else [] for line in (history.start, history.final))
    start, final = ends
    return [*start, *history.epochs, *final]


def _domains_of(
    history: History, bank: Bank | None, predictions: Predictions | None
) -> tuple[str, ...]:
    if predictions:
        return predictions.domains
    if bank:
        return bank.domains
    bench = benchmark(history.config.data.benchmark)
    if not bench.open:
        return bench.sources(history.config.target)
    beta = (history.last or {}).get("beta", [])
    return tuple(f"source {i}" for i in range(1, len(beta) + 1))
