"""Signs that a run goes wrong with finite numbers: collapsed predictions, sources that are dead.

A sign is a warning of every line of the results on which it stands; it is said aloud when it begins
and when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ms_biaten.spec.bank import Bank
from ms_biaten.spec.metrics import Survey

# Of the way from an even share of a class to all samples in it: with 2 classes 95 % of the samples,
# with many 90 %. A target of two classes may well be uneven.
COLLAPSED = 0.9
UNUSED = 1 / 20  # of 1/N: a mean weight below it is next to nothing

Sign = dict[str, str]  # about: what it is of; text: what was seen; try: what to do


def found(survey: Survey, bank: Bank) -> dict[str, list[Sign]]:
    """{"warnings": [...]}, or nothing where all is well."""
    signs = collapse(survey.predicted, bank.classes)
    for i, domain in enumerate(bank.domains):
        signs += constant_source(survey.own_predicted[:, i], domain, bank.classes)
    signs += unused_sources(survey.mean_beta, bank.domains)
    return {"warnings": signs} if signs else {}


def collapse(predicted: np.ndarray, classes: Sequence[str]) -> list[Sign]:
    taken = taken_class(predicted, classes)
    if taken is None:
        return []
    return [
        {
            "about": "predictions",
            "text": f"predictions collapsed: {taken}",
            "try": "unless the target is so uneven, try a smaller train.lr, a smaller loss.gamma "
            "or a larger train.batch_size, with loss.im on",
        }
    ]


def constant_source(predicted: np.ndarray, domain: str, classes: Sequence[str]) -> list[Sign]:
    taken = taken_class(predicted, classes)
    if taken is None:
        return []
    return [
        {
            "about": f"outputs of {domain}",
            "text": f"source {domain} is dead: {taken}",
            "try": "check its weights and that its images were prepared as in its training, or "
            "leave it out of the bank",
        }
    ]


def unused_sources(weights: np.ndarray, domains: Sequence[str]) -> list[Sign]:
    shares = weights / weights.sum()
    return [
        {
            "about": f"weight of {domain}",
            "text": f"source {domain} is not used: its mean weight is {share:.2g}",
            "try": "leave it out of the bank, or raise attention.temperature if it should count",
        }
        for domain, share in zip(domains, shares, strict=True)
        if share < UNUSED / len(domains)
    ]


def taken_class(predicted: np.ndarray, classes: Sequence[str]) -> str | None:
    """The class that takes nearly all samples, in words."""
    counts = np.bincount(predicted, minlength=len(classes))
    share, even = counts.max() / len(predicted), 1 / len(classes)
    if (share - even) / (1 - even) <= COLLAPSED:
        return None
    return f"{100 * share:.0f}% of the samples go to '{classes[int(counts.argmax())]}'"


def say_changes(
    before: Sequence[Mapping[str, str]], line: Mapping[str, Any], say: Callable[[str], None]
) -> None:
    """A warning that was not there on the line before, and one that is there no more."""
    now = line.get("warnings", [])
    known, still = ({sign["about"] for sign in signs} for signs in (before, now))
    for sign in now:
        if sign["about"] not in known:
            say(as_line(sign))
    for sign in before:
        if sign["about"] not in still:
            say(f"no longer: {sign['text']}")


def as_line(sign: Mapping[str, str]) -> str:
    return f"warning: {sign['text']}; {sign['try']}"
