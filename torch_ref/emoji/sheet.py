"""A contact sheet: a few emoji of each class in each domain, to check the classes by eye."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch_ref.emoji.lists import image_path

TILE = 56


def save_sheet(
    path: Path, root: Path, domains: Sequence[str], members: Mapping[str, Sequence[str]], count: int
) -> None:
    """One row per class and domain, `count` emoji spread over the class."""
    from PIL import Image, ImageDraw

    margin = 2 * TILE
    sheet = Image.new("RGB", (margin + count * TILE, len(members) * len(domains) * TILE), "white")
    pen = ImageDraw.Draw(sheet)
    for row, (name, domain) in enumerate((n, d) for n in members for d in domains):
        pen.text((4, row * TILE + TILE // 3), f"{name}\n{domain}", fill="black")
        codes = members[name]
        shown = [codes[i * len(codes) // count] for i in range(count)] if codes else []
        for column, code in enumerate(dict.fromkeys(shown)):
            with Image.open(root / image_path(domain, name, code)) as image:
                sheet.paste(image.resize((TILE, TILE)), (margin + column * TILE, row * TILE))
    sheet.save(path)
