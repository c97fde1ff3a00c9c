"""Class orders that files of a benchmark are known to use: label n is line n of an order.

The same names in another order silently swap predictions, so an order has a name:
`office_home/lists` is class_orders/office_home/lists.txt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from ms_biaten.spec.errors import UserError

FOLDER = Path(__file__).parent / "class_orders"
ORDERS = {  # the first of a benchmark is the one that its name alone stands for
    # lists: the official lists; folders: as Python sorts the folders, capitals first.
    "domainnet": ("lists", "folders"),
    # alphabetical: DINE, MME; folders: TV before Table; lists: CDAN and what followed it.
    "office_home": ("alphabetical", "folders", "lists"),
    # plain: backpack, laptop; office31: back_pack, laptop_computer, the names of Office-31.
    "office_caltech": ("plain", "office31"),
}


def known_orders(benchmark: str | None = None) -> list[str]:
    """Names like office_home/lists, of one benchmark or of all."""
    chosen = ORDERS if benchmark is None else [benchmark]
    return [f"{name}/{order}" for name in chosen for order in ORDERS.get(name, ())]


def is_order(name: str) -> bool:
    return name in ORDERS or name in known_orders()


@cache
def class_order(name: str) -> tuple[str, ...]:
    """The classes of `office_home/lists`, or of `office_home`, its first order."""
    if not is_order(name):
        raise UserError(f"no class order '{name}'; known: {', '.join(known_orders())}")
    full = known_orders(name)[0] if name in ORDERS else name
    return tuple((FOLDER / f"{full}.txt").read_text(encoding="utf-8").split())


def order_of(classes: Sequence[str]) -> str | None:
    """The name of the known order that these classes are."""
    return next((n for n in known_orders() if class_order(n) == tuple(classes)), None)


def order_of_folders(pairs: Iterable[tuple[str, int]]) -> str | None:
    """The known order in which each of these (class folder, label) is right."""
    found = set(pairs)
    return next((n for n in known_orders() if found <= _pairs(n)), None)


def check_order(benchmark: str, classes: Sequence[str], where: str) -> None:
    """Classes of a benchmark with known orders must be one of them."""
    orders = {name: class_order(name) for name in known_orders(benchmark)}
    if not orders or tuple(classes) in orders.values():
        return

    def matches(name: str) -> int:
        return sum(a == b for a, b in zip(classes, orders[name], strict=False))

    nearest = max(orders, key=matches)
    place, found, expected = first_difference(classes, orders[nearest])
    raise UserError(
        f"{where}: its classes are no known order of {benchmark} ({', '.join(orders)}); "
        f"class {place} is '{found}', in {nearest} '{expected}'; extract with --classes {nearest} "
        "or another of them; sources trained in an order of their own run with --config own"
    )


def first_difference(one: Sequence[str], other: Sequence[str]) -> tuple[int, str, str]:
    """Where two orders of one length part, and both names there."""
    pairs = enumerate(zip(one, other, strict=True))
    return next((place, a, b) for place, (a, b) in pairs if a != b)


@cache
def _pairs(name: str) -> frozenset[tuple[str, int]]:
    return frozenset((c, label) for label, c in enumerate(class_order(name)))
