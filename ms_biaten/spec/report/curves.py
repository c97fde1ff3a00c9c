"""Measures over the epochs: the run, its controls, and what the sources did before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ms_biaten.spec.console import title_of
from ms_biaten.spec.history import History
from ms_biaten.spec.report import drawing
from ms_biaten.spec.report.story import Story

LOOKS: list[dict[str, Any]] = [  # of the controls: colour, dashes and marker all differ
    {"color": drawing.VERMILION, "linestyle": (0, (5, 2)), "marker": "s"},
    {"color": drawing.GREEN, "linestyle": (0, (5, 2, 1, 2)), "marker": "^"},
    {"color": drawing.PURPLE, "linestyle": (0, (2, 1.5)), "marker": "D"},
    {"color": drawing.SKY, "linestyle": (0, (8, 2)), "marker": "v"},
]
DASHES = [(0, (1, 1.5)), (0, (3, 1.5)), (0, (6, 2)), (0, (3, 1.5, 1, 1.5)), (0, (8, 2, 1, 2))]


@dataclass(frozen=True)
class Curve:
    """A measure by epoch; one with a single value is drawn as a level."""

    name: str
    epochs: list[int]
    values: list[float]
    look: dict[str, Any]


def curve_of(history: History, measure: str, look: dict[str, Any]) -> Curve | None:
    lines = [line for line in (history.start, *history.epochs) if line and measure in line]
    if not history.planned:  # trains nothing: its one value holds for all epochs
        lines = [{**history.final, "epoch": 0}] if history.final else []
    if not lines:
        return None
    return Curve(
        title_of(history.config), [ln["epoch"] for ln in lines], [ln[measure] for ln in lines], look
    )


def curves_of(story: Story, measure: str) -> list[Curve]:
    """The run first, then its controls."""
    own = {"color": drawing.BLUE, "linestyle": "-", "marker": "o", "linewidth": 2.2, "zorder": 4}
    found = [curve_of(story.history, measure, own)]
    for history, look in zip(story.controls.values(), LOOKS * len(story.controls), strict=False):
        found.append(curve_of(history, measure, look))
    return [curve for curve in found if curve]


def baselines_of(story: Story) -> list[Curve]:
    """Each source alone and their average, before anything was trained."""
    start = story.history.start or {}
    curves = []
    for index, (name, value) in enumerate(start.get("baselines", {}).items()):
        look = {"color": drawing.INK, "linestyle": DASHES[index % len(DASHES)], "alpha": 0.55}
        if name == "AVG-ENS":
            look = {"color": drawing.ORANGE, "linestyle": (0, (4, 1, 1, 1, 1, 1))}
        curves.append(Curve(name, [0], [value], {**look, "linewidth": 1.0}))
    return curves


def accuracy_figure(story: Story) -> Figure:
    figure, (axes,) = drawing.new_figure(4.0)
    draw_curves(axes, [*curves_of(story, "accuracy"), *baselines_of(story)], story)
    label_ends(axes, [*curves_of(story, "accuracy"), *baselines_of(story)], 4.0)
    axes.set_ylabel("accuracy, %")
    return figure


def label_free_figure(story: Story) -> Figure:
    """The measures that need no labels, side by side."""
    figure, panels = drawing.new_figure(2.7, 3)
    names = {"im": "IM (lower is better)", "snd": "SND (higher)", "entropy": "entropy (lower)"}
    for axes, (measure, title) in zip(panels, names.items(), strict=True):
        draw_curves(axes, curves_of(story, measure), story)
        axes.set_title(title)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_curves(axes: Axes, curves: list[Curve], story: Story) -> None:
    last = max([story.history.planned, *(curve.epochs[-1] for curve in curves), 1])
    for curve in curves:
        look: dict[str, Any] = {"linewidth": 1.4, "markersize": 4, "markevery": max(1, last // 12)}
        look |= {"clip_on": False, **curve.look}
        if len(curve.values) == 1:
            axes.plot([0, last], curve.values * 2, label=curve.name, **{**look, "marker": ""})
        else:
            axes.plot(curve.epochs, curve.values, label=curve.name, **look)
    final = story.history.final
    if final and final["selected_epoch"]:
        axes.axvline(final["selected_epoch"], color=drawing.INK, alpha=0.15, linewidth=5, zorder=0)
    axes.set_xlim(0, last)
    axes.margins(y=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(axis="y")
    axes.set_xlabel("epoch")


def label_ends(axes: Axes, curves: list[Curve], height: float) -> None:
    """Names at the right, beside the lines they belong to: no legend to look up."""
    low, high = axes.get_ylim()
    gap = (high - low) * 9 * 1.35 / 72 / (height * 0.77)
    ends = [curve.values[-1] for curve in curves]
    last = axes.get_xlim()[1]
    for curve, end, place in zip(curves, ends, drawing.spread(ends, gap), strict=True):
        stop = last if len(curve.values) == 1 else curve.epochs[-1]
        axes.annotate(
            f"{drawing.short(curve.name, 24)}  {end:.1f}",
            (stop, end),
            (1.04, place),
            textcoords=("axes fraction", "data"),
            va="center",
            color=drawing.INK,
            fontweight="bold" if curve is curves[0] else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0, 0.5),
                "color": curve.look["color"],
                "linewidth": 0.8,
                "shrinkA": 2,
                "shrinkB": 0,
            },
        )
