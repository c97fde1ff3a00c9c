"""Algorithm 1, once for both frameworks: an engine computes, this loop decides what and when.

Several workers run it side by side: each looks at its shard of the target and at its part of every
batch, and all come to the same weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from ms_biaten.spec import console, guard, health, provenance
from ms_biaten.spec.bank import Bank
from ms_biaten.spec.checkpoints import RESTORE
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.guard import NotFiniteError
from ms_biaten.spec.history import UNTRAINED
from ms_biaten.spec.metrics import LABEL_FREE, Survey, accuracy
from ms_biaten.spec.run import RunFolder, load_into
from ms_biaten.spec.schedules import batch_starts, epoch_batches, is_one_hot, learning_rate
from ms_biaten.spec.sources import weights_digest
from ms_biaten.spec.weights import Arrays
from ms_biaten.spec.workers import Workers

ALONE = Workers()
TERMS = ("loss", "ce", "im_loss", *console.FURTHER_TERMS, "grad_norm")


class Engine(Protocol):
    """What a framework supplies: `ms_biaten.adapt.Adapter` and `torch_ref.adapt.Adapter`."""

    def survey(self, bank: Bank, size: int, survey: Survey) -> None:
        """One pass in evaluation mode, `size` samples at a time; Eq. (11) on the way."""

    def relabel(self, bank: Bank, size: int, epoch: int) -> np.ndarray:
        """What each step needs to know its labels: Eqs. (12)-(14), or the features for them."""

    def step(self, raw: np.ndarray, memory: np.ndarray, lr: float, learned: bool) -> dict[str, Any]:
        """One update by Eq. (17); a flat record of losses, weights and labels."""

    def undisturbed(self) -> AbstractContextManager[None]:
        """Held while an epoch is made: whatever keeps its own threads out of its way."""

    def begin_epoch(self, epoch: int) -> None:
        """Before the steps of an epoch."""

    def extract(self, images: np.ndarray) -> np.ndarray:
        """Images (B,3,H,W) under backbones that are trained, too: (B,N,R)."""

    def reestimate(self, bank: Bank, size: int) -> None:
        """Batch normalisation's statistics from the whole target; nothing is trained."""

    def state(self, into: Arrays | None = None) -> Arrays: ...

    def load(self, arrays: Arrays) -> None: ...


def run(
    engine: Engine,
    bank: Bank,
    folder: RunFolder,
    about: dict[str, Any],
    say: Callable[[str], None] = console.say,
    workers: Workers = ALONE,
) -> None:
    """Trains, or goes on training, to the final line of `results.jsonl`."""
    config = folder.config
    if config.run.select == "oracle" and bank.labels is None:
        raise UserError("run.select: oracle needs target labels, and this bank has none")
    epochs = 0 if config.method.name in UNTRAINED else config.train.epochs
    started = time.monotonic()

    survey: Survey | None = None
    # Two, in turns: the state before may not be on disk yet when the next one is taken.
    states: list[Arrays | None] = [None, None]
    saved = folder.checkpoints.latest(say)
    if saved:
        arrays, position = saved
        check_progress(folder, position, epochs)
        load_into(engine, arrays, folder.checkpoint())
        bank.refresh(engine.extract)
        workers.wait()  # nobody writes over what another has still to read
        folder.go_on(position)
        say(f"resumed after epoch {position['epoch']} of {epochs}")
    else:
        position = {"epoch": 0, "step": 0, "seed": config.run.seed, "best": None}
        survey = begin(engine, bank, folder, about, workers)
        say(console.epoch_line(folder.lines[0], epochs))
        health.say_changes([], folder.lines[0], say)

    try:
        for epoch in range(position["epoch"], epochs):
            with engine.undisturbed():
                line, survey, labels = train_epoch(engine, bank, folder, epoch, workers)
            state = states[epoch % 2] = engine.state(states[epoch % 2])
            guard.check_weights(state, bank.domains)
            position = {**position, "epoch": epoch + 1, "step": line["step"]}
            keep = choose(config.run.select, line, position)
            arrays = {**state, "pseudo_labels": labels}
            if keep:
                folder.save_checkpoint(arrays, position, "best")
            warned = folder.lines[-1].get("warnings", [])
            folder.write(line)
            folder.keep(arrays, position, now=keep)  # `last` knows of every best one
            folder.went_on()
            say(console.epoch_line(line, epochs))
            health.say_changes(warned, line, say)
    finally:
        folder.flush()  # whatever ends the training, the last whole epoch is on disk

    if config.run.select != "last" and epochs:
        workers.wait()
        arrays, position = folder.load_checkpoint("best")
        load_into(engine, arrays, folder.checkpoint("best"))
        bank.refresh(engine.extract)
        survey = None
    if not epochs:
        arrays = engine.state()
        folder.save_checkpoint(arrays, position)
    survey = survey or take_survey(engine, bank, config.run.eval_batch, workers)
    finish(bank, folder, position["epoch"], survey, started, weights_digest(arrays))


def check_progress(folder: RunFolder, position: dict[str, Any], epochs: int) -> None:
    """Results and checkpoint of one run belong together."""
    if position["epoch"] > epochs:
        raise UserError(
            f"{folder.checkpoint()}: written after epoch {position['epoch']}, but config.yaml "
            f"plans {epochs}; {RESTORE}"
        )
    if not folder.lines or folder.lines[0]["kind"] != "start":
        raise UserError(f"{folder.path / 'results.jsonl'}: has no start line; {RESTORE}")


def begin(
    engine: Engine, bank: Bank, folder: RunFolder, about: dict[str, Any], workers: Workers
) -> Survey:
    """The first survey: how good the sources are before anything is trained."""
    size = folder.config.run.eval_batch
    survey = see_target(engine, bank, size, workers)
    baselines = survey.baselines(bank.domains, bank.labels)
    if folder.config.method.name == "bn_only":
        engine.reestimate(workers.shard(bank), size)
        survey = take_survey(engine, bank, size, workers)
        guard.check_outputs(survey, bank)
    folder.lines = []
    measures = {**survey.measures(bank.labels), **health.found(survey, bank)}
    folder.write({"kind": "start", "epoch": 0, **about, "baselines": baselines, **measures})
    return survey


def finish(
    bank: Bank, folder: RunFolder, selected: int, survey: Survey, started: float, weights: str
) -> None:
    """Predictions of the selected weights, and the final line."""
    run = folder.config.run
    predictions = folder.write_predictions(bank, survey)
    folder.write(
        {
            "kind": "final",
            "rule": run.select,
            "oracle": run.select == "oracle",
            "selected_epoch": selected,
            **survey.measures(bank.labels),
            **health.found(survey, bank),
            "sha256": provenance.results_of(weights, predictions),
            "beta": survey.mean_beta.tolist(),
            "alpha": survey.alpha.tolist(),
            "seconds": round(time.monotonic() - started, 3),
        }
    )


def train_epoch(
    engine: Engine, bank: Bank, folder: RunFolder, epoch: int, workers: Workers
) -> tuple[dict[str, Any], Survey, np.ndarray]:
    """Lines 3-16 of Algorithm 1 for one epoch, and the evaluation after it."""
    config = folder.config
    train, size = config.train, config.run.eval_batch
    per_epoch = len(batch_starts(len(bank), train.batch_size))
    one_hot = is_one_hot(config, epoch)
    started = time.monotonic()

    # A worker's part of a batch may be any rows: all labels, or all features where a profile labels
    # them by the batch (M N D numbers), go to every worker.
    memory = workers.gathered(engine.relabel(workers.shard(bank), size, epoch))
    engine.begin_epoch(epoch)
    labels = np.full(len(bank), -1, np.int64)  # -1: in no batch of this epoch
    sums: dict[str, float] = {}
    lr = train.lr
    order = epoch_batches(config.run.seed, epoch, len(bank), train.batch_size)
    batches = bank.batches(map(workers.part, order), epoch)
    title = f"epoch {epoch + 1}/{train.epochs}"
    hidden = None if workers.main else True
    with tqdm(batches, title, per_epoch, leave=False, disable=hidden, dynamic_ncols=True) as bar:
        for index, (rows, seen) in enumerate(bar):
            lr = learning_rate(config, epoch * per_epoch + index, per_epoch)
            record = engine.step(seen, memory[rows], lr, not one_hot)
            labels[rows] = record["labels"]
            guard.check_step(record, rows, bank, epoch, index, workers)
            terms = [term for term in TERMS if term in record]
            for term in terms:
                sums[term] = sums.get(term, 0.0) + record[term]
            bar.set_postfix({t: f"{record[t]:.3f}" for t in terms[:-1]}, refresh=False)

    labels = workers.merged(labels)
    survey = see_target(engine, bank, size, workers)
    line = {
        "kind": "epoch",
        "epoch": epoch + 1,
        "step": (epoch + 1) * per_epoch,
        "one_hot": one_hot,
        "lr": lr,
        **{term: total / per_epoch for term, total in sums.items()},
        **survey.measures(bank.labels),
        **health.found(survey, bank),
        "beta": survey.mean_beta.tolist(),
    }
    if bank.labels is not None:
        seen = labels >= 0
        line["label_accuracy"] = accuracy(labels[seen], bank.labels[seen])
    line["seconds"] = round(time.monotonic() - started, 3)
    return line, survey, labels


def see_target(engine: Engine, bank: Bank, size: int, workers: Workers) -> Survey:
    """A survey by the weights of now, whose outputs are finite; where not, weights may be why."""
    try:
        bank.refresh(engine.extract)
        survey = take_survey(engine, bank, size, workers)
        guard.check_outputs(survey, bank)
    except NotFiniteError:
        guard.check_weights(guard.trained_among(engine.state()), bank.domains)
        raise
    return survey


def take_survey(engine: Engine, bank: Bank, size: int, workers: Workers = ALONE) -> Survey:
    first = workers.span(len(bank)).start
    survey = Survey(len(bank), len(bank.domains), len(bank.classes), first)
    with np.errstate(invalid="ignore", over="ignore"):  # the guard says it with the sample's name
        engine.survey(workers.shard(bank), size, survey)
    survey.merge(workers)
    return survey


def choose(rule: str, line: dict[str, Any], position: dict[str, Any]) -> bool:
    """Is this epoch the best so far by the selection rule? Remembers it in `position`."""
    if rule == "last":
        return False
    name, sign = ("accuracy", 1) if rule == "oracle" else (rule, LABEL_FREE[rule])
    best = position["best"]
    if best is not None and sign * line[name] <= sign * best["value"]:
        return False
    position["best"] = {"epoch": line["epoch"], "value": line[name]}
    return True
