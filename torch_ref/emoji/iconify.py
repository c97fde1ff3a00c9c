"""Drawings in the Iconify format: bodies in inherited boxes, and aliases that turn or flip them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Icons = dict[str, Any]  # icons.json

BOX = {"left": 0, "top": 0, "width": 16, "height": 16}  # where neither icon nor set says otherwise
NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
MAX_ALIASES = 8  # longer chains are loops


@dataclass(frozen=True)
class Drawing:
    body: str
    left: float
    top: float
    width: float
    height: float
    quarter_turns: int = 0
    h_flip: bool = False
    v_flip: bool = False


def find(icons: Icons, name: str) -> Drawing | None:
    """The drawing of that name; None where the set has none, or an alias leads nowhere."""
    turns, h_flip, v_flip = 0, False, False
    own: dict[str, float] = {}
    for _ in range(MAX_ALIASES):
        icon = icons["icons"].get(name)
        entry = icon or icons.get("aliases", {}).get(name)
        if entry is None:
            return None
        # Turns and flips of an alias add to its parent's; a box of its own replaces it.
        turns += entry.get("rotate", 0)
        h_flip ^= entry.get("hFlip", False)
        v_flip ^= entry.get("vFlip", False)
        own = {key: entry[key] for key in BOX if key in entry} | own
        if icon:
            box = BOX | {key: icons[key] for key in BOX if key in icons} | own
            return Drawing(
                icon["body"], **box, quarter_turns=turns % 4, h_flip=h_flip, v_flip=v_flip
            )
        name = entry["parent"]
    return None


def to_svg(drawing: Drawing, size: int) -> str:
    """A square SVG document with the drawing in its middle."""
    left, top, width, height = drawing.left, drawing.top, drawing.width, drawing.height
    x, y = left + width / 2, top + height / 2  # the centre stays where it is
    steps = []  # the rightmost applies first: flip, then turn
    if drawing.quarter_turns:
        steps.append(f"rotate({90 * drawing.quarter_turns} {x:g} {y:g})")
    if drawing.h_flip:
        steps.append(f"translate({2 * x:g} 0) scale(-1 1)")
    if drawing.v_flip:
        steps.append(f"translate(0 {2 * y:g}) scale(1 -1)")
    body = f'<g transform="{" ".join(steps)}">{drawing.body}</g>' if steps else drawing.body
    if drawing.quarter_turns % 2:
        width, height = height, width
    box = f"{x - width / 2:g} {y - height / 2:g} {width:g} {height:g}"
    return f'<svg {NAMESPACES} width="{size}" height="{size}" viewBox="{box}">{body}</svg>'
