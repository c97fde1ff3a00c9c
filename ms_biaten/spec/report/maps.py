"""Heat maps, as vector cells: sharp at any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ms_biaten.spec.report import drawing
from ms_biaten.spec.report.sweep import SweepMap


def deviation_figure(
    deviations: np.ndarray, domains: Sequence[str], classes: Sequence[str]
) -> Figure:
    """(N, C): weights above the domain's mean in red, below in blue."""
    figure, (axes,) = drawing.new_figure(0.8 + 0.36 * len(domains))
    limit = float(np.nanmax(np.abs(deviations)))
    heat_map(axes, deviations, domains, classes, drawing.DIVERGING, (-limit, limit))
    colour_bar(figure, axes, drawing.DIVERGING, (-limit, limit), "β − mean β")
    return figure


def alpha_figure(alpha: np.ndarray, domains: Sequence[str]) -> Figure:
    """(N, N) around 1/N; the range is at least 0.01 each way, so that noise looks like noise."""
    figure, (axes,) = drawing.new_figure(0.9 + 0.46 * len(domains))
    even = 1 / len(domains)
    limit = max(0.01, float(np.abs(alpha - even).max()))
    digits = 4 if limit <= 0.011 else 3
    bounds = (even - limit, even + limit)
    heat_map(axes, alpha, domains, domains, drawing.DIVERGING, bounds, lambda v: f"{v:.{digits}f}")
    axes.set_xlabel("classifier of")
    axes.set_ylabel("feature of")
    bar = colour_bar(figure, axes, drawing.DIVERGING, bounds, "α")
    bar.ax.set_ylim(bottom=max(0.0, bounds[0]))  # no weight is negative
    return figure


def confusion_figure(counts: np.ndarray, totals: np.ndarray, classes: Sequence[str]) -> Figure:
    """(C, C) as shares of the true class; `totals` count the samples of each, shown or not."""
    size = len(classes)
    figure, (axes,) = drawing.new_figure(min(6.4, 1.2 + 0.36 * size))
    shares = counts / np.maximum(1, totals)[:, None]
    text = (lambda v: f"{100 * v:.0f}" if v else "") if size <= 14 else None
    heat_map(axes, shares, classes, classes, drawing.SHARES, (0, 1), text)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    colour_bar(figure, axes, drawing.SHARES, (0, 1), "share of the true class")
    return figure


def sweep_figure(found: SweepMap) -> Figure:
    figure, (axes,) = drawing.new_figure(0.9 + 0.42 * len(found.lambdas))
    finite = found.accuracy[np.isfinite(found.accuracy)]
    bounds = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    rows, columns = ([f"{v:g}" for v in values] for values in (found.lambdas, found.gammas))
    heat_map(axes, found.accuracy, rows, columns, drawing.SEQUENTIAL, bounds, lambda v: f"{v:.1f}")
    for row, column in np.argwhere(found.failed):
        axes.add_patch(
            Rectangle((column, row), 1, 1, fill=False, hatch="////", edgecolor=drawing.VERMILION)
        )
        axes.text(
            column + 0.5,
            row + 0.5,
            "failed",
            ha="center",
            va="center",
            color="white",
            bbox={"boxstyle": "round,pad=0.25", "facecolor": drawing.VERMILION, "linewidth": 0},
        )
    axes.set_xlabel("γ")
    axes.set_ylabel("λ")
    colour_bar(figure, axes, drawing.SEQUENTIAL, bounds, "accuracy, %")
    return figure


def heat_map(
    axes: Axes,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    colours: str,
    bounds: tuple[float, float],
    text: Callable[[float], str] | None = None,
) -> None:
    """One cell for each value, perhaps with its number; NaN stays empty."""
    options: dict[str, Any] = {"cmap": colours, "vmin": bounds[0], "vmax": bounds[1]}
    axes.pcolormesh(values, edgecolors="white", linewidth=0.8, **options)
    axes.invert_yaxis()
    steep = sum(len(drawing.short(c)) for c in columns) > 70
    turned: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if steep else {}
    )
    axes.set_xticks(np.arange(len(columns)) + 0.5, [drawing.short(c) for c in columns], **turned)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [drawing.short(r) for r in rows])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if text:
        shade = matplotlib.colormaps[colours]
        scale = Normalize(*bounds)
        for row, column in np.argwhere(np.isfinite(values)):
            value = float(values[row, column])
            red, green, blue, _ = shade(scale(value))
            bright = 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
            colour = "#111111" if bright else "#ffffff"
            middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
            axes.text(column + 0.5, row + 0.5, text(value), color=colour, **middle)


def colour_bar(
    figure: Figure, axes: Axes, colours: str, bounds: tuple[float, float], name: str
) -> Colorbar:
    shades = matplotlib.colormaps[colours].resampled(64)  # each is a path in the SVG
    place = axes.inset_axes((1.015, 0, 0.022, 1))
    bar = figure.colorbar(ScalarMappable(Normalize(*bounds), shades), cax=place)
    bar.set_label(name)
    bar.ax.spines[:].set_visible(False)
    return bar
