"""Bars: how much each source is trusted, and how much the confidence can be."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ms_biaten.spec.report import drawing
from ms_biaten.spec.report.measures import Reliability


def weights_figure(
    domains: tuple[str, ...],
    mean: np.ndarray,
    beta: np.ndarray | None,
    accuracies: list[float] | None,
) -> Figure:
    """Mean weight of each source; beside it, where known, its accuracy alone."""
    height = 0.9 + 0.34 * len(domains)
    figure, panels = drawing.new_figure(height, 2 if accuracies else 1, sharey=True)
    rows = np.arange(len(domains))
    axes = panels[0]
    axes.barh(rows, mean, 0.62, color=drawing.BLUE)
    reach = mean
    if beta is not None:
        low, reach = np.quantile(beta, (0.05, 0.95), axis=0)
        axes.hlines(rows, low, reach, color=drawing.INK, linewidth=1.4)
    for row, value in enumerate(mean):
        _at_the_right(axes, row, f"{value:.3f}")
    axes.axvline(1 / len(domains), color=drawing.INK, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.set_xlim(0, 1.25 * max(reach.max(), mean.max()))
    axes.set_yticks(rows, [drawing.short(d) for d in domains])
    axes.invert_yaxis()
    axes.set_title("mean weight β", loc="left")
    if accuracies:
        axes = panels[1]
        axes.barh(rows, accuracies, 0.62, color=drawing.ORANGE)
        for row, value in enumerate(accuracies):
            _at_the_right(axes, row, f"{value:.1f}")
        axes.set_xlim(0, 1.2 * max(*accuracies, 1))
        axes.set_title("accuracy alone, %", loc="left")
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
    return figure


def _at_the_right(axes: Axes, row: int, text: str) -> None:
    axes.text(1, row, text, transform=axes.get_yaxis_transform(), ha="right", va="center")


def calibration_figure(found: Reliability) -> Figure:
    """Accuracy by confidence, and how many samples have it."""
    figure, (axes, sizes) = drawing.new_figure(3.1, 2)
    bins = len(found.counts)
    middle, width = (np.arange(bins) + 0.5) / bins, 0.94 / bins
    filled = found.counts > 0
    axes.plot([0, 1], [0, 1], color=drawing.INK, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.bar(middle[filled], found.accuracy[filled], width, color=drawing.BLUE)
    axes.plot(
        found.confidence[filled],
        found.accuracy[filled],
        linestyle="",
        marker="o",
        markersize=4,
        color=drawing.VERMILION,
        clip_on=False,
    )
    axes.set_ylim(0, 1)
    axes.set_ylabel("accuracy")
    axes.set_title(f"ECE {100 * found.ece:.1f} %", loc="left")
    sizes.bar(middle, found.counts, width, color=drawing.SKY)
    sizes.set_ylabel("samples")
    for panel in (axes, sizes):
        panel.set_xlim(0, 1)
        panel.set_xlabel("confidence")
        panel.grid(axis="y")
    return figure
