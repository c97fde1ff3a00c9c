"""Both frameworks through the same epochs: every step's losses and weights, every epoch's state."""

import dataclasses

import numpy as np

import torch_ref.backend
from ms_biaten.spec.bank import Bank
from ms_biaten.spec.debug import debug_bank, debug_source
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.methods import initial_arrays
from ms_biaten.spec.metrics import Survey
from ms_biaten.spec.schedules import batch_starts, epoch_batches, is_one_hot, learning_rate
from ms_biaten.spec.shapes import Sizes
from ms_biaten.spec.weights import stack_sources
from parity_tests.cases import TOLERANCE
from parity_tests.harness import error

import ms_biaten.backend  # isort: skip  (after the harness, which settles the device)

BACKENDS = {"mindspore": ms_biaten.backend, "torch": torch_ref.backend}

# 397 samples in batches of 31: 13 steps an epoch, the last of 25 samples; 52 steps in all.
SETTINGS = ("train.batch_size=31", "train.epochs=4", "run.eval_batch=101", "attention.width=13")
SAMPLES = 397

# Methods of Eq. (18) and the weights that they take.
METHODS = [
    ("shot", "native"),
    ("decision", "uniform"),
    ("date", "uniform"),
    *((name, weights) for name in ("decision", "caida", "date") for weights in ("native", "aten")),
]


def trajectory_config(profile="paper", overrides=()):
    return load_config("debug", profile=profile, overrides=(*SETTINGS, *overrides))


def small_bank(view="center", samples=SAMPLES) -> Bank:
    bank = debug_bank("night", view)
    return dataclasses.replace(
        bank,
        samples=bank.samples[:samples],
        features=bank.features[:samples],
        labels=bank.labels[:samples],
    )


def make_adapter(framework, config, bank):
    sizes = Sizes.of(config, len(bank.domains), len(bank.classes))
    heads = stack_sources(debug_source(domain) for domain in bank.domains)
    return BACKENDS[framework].make_engine(
        config, sizes, {**heads, **initial_arrays(config, sizes)}
    )


class Margins(Survey):
    """Also by how much each sample's best class leads."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.margins = []

    def add(self, logits, *others):
        second, first = np.sort(logits, 1)[:, -2:].T
        self.margins.append(first - second)
        super().add(logits, *others)


def follow(framework, config):
    """A flat record {what: array} of a whole run on the view that the profile asks for."""
    bank = small_bank(config.profile.view)
    adapter = make_adapter(framework, config, bank)
    record = {}
    per_epoch = len(batch_starts(len(bank), config.train.batch_size))

    def survey(when):
        seen = Margins(len(bank), len(bank.domains), len(bank.classes))
        adapter.survey(bank, config.run.eval_batch, seen)
        record[f"{when} beta"], record[f"{when} predicted"] = seen.beta, seen.predicted
        record[f"{when} margin"] = np.concatenate(seen.margins)
        for name, value in seen.measures(None).items():  # accuracies follow from the predictions
            record[f"{when} {name}"] = np.array(value)

    survey("start")
    for epoch in range(config.train.epochs):
        memory = adapter.relabel(bank, config.run.eval_batch, epoch)
        record[f"epoch {epoch} memory"] = memory
        batches = epoch_batches(config.run.seed, epoch, len(bank), config.train.batch_size)
        for index, rows in enumerate(batches):
            lr = learning_rate(config, epoch * per_epoch + index, per_epoch)
            step = adapter.step(bank.rows(rows), memory[rows], lr, not is_one_hot(config, epoch))
            record[f"step {epoch}.{index} lr"] = np.array(lr)
            for name, value in step.items():
                record[f"step {epoch}.{index} {name}"] = np.asarray(value)
        survey(f"epoch {epoch}")
        for name, array in adapter.state().items():
            record[f"epoch {epoch} {name}"] = array
    return record


def differences(one, other):
    """{what: error} of two records; of whole numbers, the share that differs.

    A prediction may differ where the two best classes are nearer to each other than the tolerance.
    """
    if one.keys() != other.keys():
        raise AssertionError(f"records differ in {sorted(one.keys() ^ other.keys())[:3]}")
    result = {}
    for name in one:
        if one[name].dtype.kind in "iu":
            result[name] = float(np.mean((one[name] != other[name]) & sure(one, other, name)))
        else:
            result[name] = error(one[name], other[name])
    return result


def sure(one, other, name):
    if not name.endswith(" predicted"):
        return True
    margin = name.replace("predicted", "margin")
    return np.minimum(one[margin], other[margin]) > TOLERANCE["float32"]


def worst_by_kind(errors):
    """The worst error of each kind of quantity, for a report that can be read."""
    kinds = {}
    for name, value in errors.items():
        kind = name.split(" ", 2)[-1] if name[0] in "es" else name
        kinds[kind] = max(kinds.get(kind, 0.0), value)
    return kinds
