"""Mistakes in what the user gave us."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in the input: shown as one line, exit code 2, nothing overwritten."""


def nearest(name: str, known: Iterable[str]) -> str:
    """' Did you mean 'x'?' for a misspelt name, or the names there are."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known: " + ", ".join(options)


class RunError(Exception):
    """A run that cannot go on through no mistake of its input: one line, exit code 1."""
