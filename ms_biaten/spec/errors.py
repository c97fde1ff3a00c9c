"""Mistakes in what the user gave us, told in one line that any terminal can show."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 1000  # characters of a message: a file may hold a text of any length


def visible(text: str) -> str:
    """Line ends, terminal codes, hidden and reversing characters as backslash codes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """What a message says of a file is the file's own words: shown, never obeyed."""
    if len(text) > LONGEST:
        half = LONGEST // 2  # what to do stands at the end
        text = f"{text[:half]} ... {text[-half:]}"
    return visible(text)


class ToldError(Exception):
    """An error whose text is for people."""

    def __init__(self, text: str):
        super().__init__(one_line(text))


class UserError(ToldError):
    """A mistake in the input: shown as one line, exit code 2, nothing overwritten."""


class RunError(ToldError):
    """A run that cannot go on through no mistake of its input: one line, exit code 1."""


def nearest(name: str, known: Iterable[str]) -> str:
    """' Did you mean 'x'?' for a misspelt name, or the names there are."""
    options = sorted(known)
    close = difflib.get_close_matches(name[:LONGEST], options, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known: " + ", ".join(options)
