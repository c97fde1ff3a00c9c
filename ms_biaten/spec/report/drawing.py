"""How every figure looks, and how it leaves: as SVG inside the page, as PNG and PDF for papers.

Matplotlib without pyplot: no global figure, no window, no display.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ms_biaten.spec.errors import visible

INK = "#1d2733"  # in the page it becomes the colour of the text around it, light or dark
WIDTH = 7.2  # inches, of every figure

# Okabe and Ito's colours, told apart by people who see fewer; its yellow is too pale for lines.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)
DIVERGING, SEQUENTIAL, SHARES = "RdBu_r", "cividis", "Blues"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with Matplotlib: the same everywhere
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "text.color": INK,
    "text.parse_math": False,  # a class may be called $x_1
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text: searchable, and in any script the reader has
    "svg.hashsalt": "ms_biaten",
    "pdf.fonttype": 42,
}


@contextmanager
def style() -> Iterator[None]:
    """Everything that is drawn or saved stands inside."""
    with warnings.catch_warnings(), matplotlib.rc_context(STYLE):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the SVG has the text itself
        yield


def new_figure(height: float, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.subplots(1, columns, squeeze=False, **options)
    return figure, list(axes[0])


def short(name: str, limit: int = 18) -> str:
    """A name that fits beside an axis, on one line."""
    name = visible(" ".join(name.split()))
    return name if len(name) <= limit else name[: limit - 1] + "…"


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Positions at least `gap` apart and as near to the values as can be, in their order."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    blocks: list[tuple[float, int]] = []  # (sum, count) of neighbours that had to be pushed
    for rank, i in enumerate(order):
        total, count = values[i] - rank * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            total, count = total + blocks[-1][0], count + blocks[-1][1]
            blocks.pop()
        blocks.append((total, count))
    means = [total / count for total, count in blocks for _ in range(count)]
    placed = {i: means[rank] + rank * gap for rank, i in enumerate(order)}
    return [placed[i] for i in range(len(values))]


def settle(figure: Figure) -> None:
    """Finds every place, once: a figure that keeps its layout engine does so at every saving."""
    ConstrainedLayoutEngine().execute(figure)


def save(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    dateless = {"CreationDate": None} if kind == "pdf" else {}
    figure.savefig(buffer, format=kind, dpi=200, metadata=dateless)
    return buffer.getvalue()


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an element of the page: the page's ink and fonts, ids of its own."""
    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue().decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = text.replace(INK, "currentColor")
    return text.replace("<svg ", f'<svg role="img" aria-label="{description}" ', 1)
