"""Is a value that came from a file what its reader expects? Each answers without raising."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

LARGEST = 2**53  # a whole number that every reader of JSON has exactly
Test = Callable[[Any], bool]


def is_count(value: Any) -> bool:
    """A whole number that can number or count something."""
    return is_whole(value) and value >= 0


def is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) < LARGEST


def is_number(value: Any) -> bool:
    """NaN and Inf are numbers, too: a measure may be one."""
    return type(value) is float or is_whole(value)


def is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def between(low: float, high: float) -> Test:
    """A number from `low` to `high`."""
    return lambda value: is_finite(value) and low <= value <= high


def is_text(value: Any) -> bool:
    """A text that can be written to a file; JSON can spell halves of characters."""
    if type(value) is not str:
        return False
    try:
        value.encode("utf-8", "surrogateescape")  # names of files are any bytes
    except UnicodeEncodeError:
        return False
    return True


def is_flag(value: Any) -> bool:
    return type(value) is bool


def is_plain_name(value: Any) -> bool:
    """A name that becomes a file's: it must not lead to another folder."""
    if not is_text(value) or value in ("", ".", "..") or len(value) > 100:
        return False
    return not set(value) & set("/\\\0")


def each(test: Test) -> Test:
    """A list of such values."""
    return lambda value: isinstance(value, list) and all(map(test, value))


def by_name(test: Test) -> Test:
    """An object whose values are such."""
    return lambda value: (
        isinstance(value, dict)
        and all(is_text(key) and test(entry) for key, entry in value.items())
    )


def or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


def different(values: list[str]) -> bool:
    return len(set(values)) == len(values)
