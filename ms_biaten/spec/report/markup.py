"""HTML by function calls. Text is escaped unless it is `Markup`: safe by default."""

from __future__ import annotations

from html import escape

from ms_biaten.spec.errors import visible

VOID = ("meta", "link", "img", "wbr")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element; `class_` is the attribute class, an attribute that is None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    return Markup("".join(c if isinstance(c, Markup) else text(c) for c in children))


def text(value: object) -> str:
    """Escaped; halves of characters and what hides or turns text around become visible."""
    plain = str(value)
    lines = plain.split("\n")
    return escape("\n".join(map(visible, lines)), quote=True)


def table(heads: list[object], rows: list[list[object]], numeric: int, class_: str = "") -> Markup:
    """A table whose columns from `numeric` on hold numbers."""

    def cells(kind: str, values: list[object]) -> Markup:
        return join(
            *(tag(kind, v, class_="number" if i >= numeric else None) for i, v in enumerate(values))
        )

    head = tag("thead", tag("tr", cells("th", heads)))
    body = tag("tbody", *(tag("tr", cells("td", row)) for row in rows))
    # A wide table scrolls by itself: the page never does.
    return tag("div", tag("table", head, body, class_=class_ or None), class_="wide")
