"""Two halves of the emoji: sources learn from one, the target is the other.

Every emoji exists in every domain. Were the target's in the sources, too, then a classifier could
know them by their shape alone; so no source sees an emoji that any target holds.

Kinds that differ little stay on both sides: clock faces (24 times of day), coloured hearts, fists
to the left and right. The classes `clock`, `heart` and `arrow` are easier for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Halves:
    source: dict[str, list[str]]  # class -> code points, sorted
    target: dict[str, list[str]]


def split(members: Mapping[str, Sequence[str]]) -> Halves:
    """Halves each class by the order of hashes: no seed, the same on every machine and version."""
    source, target = {}, {}
    for name, codes in members.items():
        order = sorted(codes, key=lambda code: hashlib.sha256(code.encode()).digest())
        middle = (len(order) + 1) // 2
        source[name], target[name] = sorted(order[:middle]), sorted(order[middle:])
    return Halves(source, target)
