"""The sections of a report. Each is a figure or table with one sentence on how to read it.

A section that has nothing to show is None, or a sentence that says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ms_biaten.spec.console import title_of
from ms_biaten.spec.loading import dump
from ms_biaten.spec.report import bars, curves, maps
from ms_biaten.spec.report.markup import Markup, join, table, tag
from ms_biaten.spec.report.measures import (
    class_deviations,
    classes_of_pairs,
    confused_pairs,
    confusion,
    most_deviating,
    most_unusual,
    reliability,
)
from ms_biaten.spec.report.story import Story
from ms_biaten.spec.report.sweep import SweepMap
from ms_biaten.spec.report.thumbnails import SIDE, thumbnail

SHOWN = 25  # classes in one map: more cannot be read
ROWS = 10  # of a table
EVEN = 1e-6  # weights that differ by less are the same


@dataclass(frozen=True)
class Section:
    name: str  # of its figure files, and its anchor
    title: str
    caption: str
    figure: Figure | None = None
    body: Markup | None = None


def all_sections(story: Story, sweep: SweepMap | None, images: Path | None) -> list[Section]:
    found = [
        convergence(story),
        results(story),
        domain_weights(story),
        class_weights(story),
        intra_weights(story),
        sweep_section(sweep) if sweep else None,
        confusions(story),
        calibration(story),
        unusual(story, images),
        settings(story),
    ]
    return [section for section in found if section]


def convergence(story: Story) -> Section | None:
    name, title = "convergence", "Convergence"
    if not story.history.epochs:
        reason = "No epoch is finished yet." if story.history.planned else "It trains nothing."
        return Section(name, title, f"There is no curve to draw. {reason}")
    selected = " The grey band marks the selected epoch." if story.history.final else ""
    if "accuracy" in story.history.epochs[-1]:
        caption = (
            "Accuracy on the target after each epoch, against the controls and against each source "
            "alone and their average (AVG-ENS) before training; what the method adds is its "
            f"distance to the controls (supplement, Fig. S2).{selected}"
        )
        return Section(name, title, caption, curves.accuracy_figure(story))
    caption = (
        "The target has no labels: these measures after each epoch need none. IM and entropy fall "
        "as predictions grow confident, SND rises as similar samples are predicted alike "
        f"(beside the supplement's Fig. S2).{selected}"
    )
    return Section(name, title, caption, curves.label_free_figure(story))


def results(story: Story) -> Section | None:
    """The table that a run prints, with everything that the folder holds."""
    last = story.history.last
    if last is None:
        return None
    runs = [*story.controls.values(), story.history]
    labelled = "accuracy" in last
    rows: list[list[object]] = []
    if labelled:
        heads: list[object] = ["", "accuracy, %", "mean over classes, %"]
        baselines = (story.history.start or {}).get("baselines", {})
        rows += [[name, f"{value:.1f}", ""] for name, value in baselines.items()]
        keys, digits = ["accuracy", "class_accuracy"], 1
    else:
        heads = ["", "IM", "SND", "entropy"]
        keys, digits = ["im", "snd", "entropy"], 3
    for run in runs:
        line, title = run.last, title_of(run.config)
        if line:
            title += "" if run.final else f" ({run.reached})"
            values = [f"{line[key]:.{digits}f}" if key in line else "" for key in keys]
            rows.append([tag("strong", title) if run is story.history else title, *values])
    caption = "Labels only measure: no method saw one." if labelled else "No labels: no accuracy."
    if last.get("oracle"):
        caption = "No method was trained with labels, but they chose the epoch: not a fair result."
    return Section("results", "Results", caption, None, table(heads, rows, 1))


def domain_weights(story: Story) -> Section | None:
    name, title = "domain-weights", "Trust in each source"
    beta = story.predictions.beta if story.predictions else None
    last = story.history.last or {}
    mean = beta.mean(0) if beta is not None else np.array(last.get("beta", []))
    if not mean.size:
        return Section(name, title, "The inter-domain weights are written after the first epoch.")
    baselines = (story.history.start or {}).get("baselines", {})
    alone = [baselines.get(f"source {domain}") for domain in story.domains]
    accuracies = [value for value in alone if value is not None]
    caption = "Mean inter-domain weight β of each source over the target (Fig. 3); dashed is 1/N"
    if beta is not None:
        caption += ", the thin line holds 90 % of the samples"
    caption += "."
    if len(accuracies) == len(story.domains):
        caption += " Good sources should get more: compare the accuracy of each alone."
    else:
        accuracies = []
    figure = bars.weights_figure(story.domains, mean, beta, accuracies or None)
    return Section(name, title, caption, figure)


def class_weights(story: Story) -> Section | None:
    name, title = "class-weights", "Trust by class"
    if story.predictions is None or story.predicted is None:
        return None
    true = story.labels is not None
    groups = story.labels if story.labels is not None else story.predicted
    deviations = class_deviations(story.predictions.beta, groups, len(story.classes))
    if not np.nanmax(np.abs(deviations)) > EVEN:
        return Section(
            name, title, "Every class weighs the sources alike: there is nothing to map."
        )
    chosen = most_deviating(deviations, SHOWN)
    caption = (
        "How far the mean weight of a source in a class lies above (red) or below (blue) its mean "
        f"over all samples, by {'true' if true else 'predicted'} class"
        f"{'' if true else ' (labels are not at hand)'}: a source is good for some classes and not "
        "for others (Figs. 4 and 5)."
    )
    present = int(np.isfinite(deviations[0]).sum())
    if len(chosen) < present:
        caption += f" Shown are the {len(chosen)} of {present} classes that deviate most."
    figure = maps.deviation_figure(
        deviations[:, chosen], story.domains, [story.classes[c] for c in chosen]
    )
    return Section(name, title, caption, figure)


def intra_weights(story: Story) -> Section | None:
    final = story.history.final or {}
    if story.history.config.method.name != "bi_aten" or "alpha" not in final:
        return None
    alpha = np.array(final["alpha"])
    distance = float(np.abs(alpha - 1 / len(alpha)).max())
    caption = (
        "Mean intra-domain weight α: how much the feature of a row relies on the classifier of a "
        f"column (Fig. 6). White is 1/N; no weight is farther from it than {distance:.2g}."
    )
    return Section(
        "intra-weights",
        "Which classifier suits which feature",
        caption,
        maps.alpha_figure(alpha, story.domains),
    )


def sweep_section(sweep: SweepMap) -> Section:
    caption = "Accuracy for each pair of λ, Eq. (16), and γ, Eq. (15) (Fig. 7)."
    failed = int(sweep.failed.sum())
    if failed:
        caption += f" {failed} of {sweep.failed.size} cells failed: no accuracy exists for them."
    return Section("sweep", "Sensitivity to λ and γ", caption, maps.sweep_figure(sweep))


def confusions(story: Story) -> Section | None:
    if story.labels is None or story.predicted is None:
        return None
    counts = confusion(story.labels, story.predicted, len(story.classes))
    chosen = classes_of_pairs(counts, SHOWN)
    pairs = confused_pairs(counts, ROWS)
    caption = "Where the samples of each true class went, in per cent of the class."
    if len(chosen) < len(story.classes):
        caption += f" Shown are the {len(chosen)} most confused of {len(story.classes)} classes."
    rows: list[list[object]] = [
        [
            story.classes[true],
            story.classes[predicted],
            counts[true, predicted],
            f"{100 * counts[true, predicted] / counts[true].sum():.0f} %",
        ]
        for true, predicted in pairs
    ]
    body = table(["true", "taken for", "samples", "of its class"], rows, 2) if rows else None
    figure = None
    if len(chosen):
        part = counts[np.ix_(chosen, chosen)], counts[chosen].sum(1)
        figure = maps.confusion_figure(*part, [story.classes[c] for c in chosen])
    return Section("confusion", "What is mistaken for what", caption, figure, body)


def calibration(story: Story) -> Section | None:
    if story.labels is None or story.predictions is None or story.predicted is None:
        return None
    found = reliability(story.predictions.confidence, story.predicted == story.labels)
    caption = (
        "Can the confidence be believed? Bars above the dashed line are more often right than they "
        "claim, bars below it less; dots stand at a bin's mean confidence. The expected "
        f"calibration error is the mean gap, {100 * found.ece:.1f} % ({len(found.counts)} bins)."
    )
    return Section("calibration", "Calibration", caption, bars.calibration_figure(found))


def unusual(story: Story, images: Path | None) -> Section | None:
    name, title = "unusual", "The most unusual samples"
    if story.predictions is None or story.predicted is None:
        return None
    beta = story.predictions.beta
    offsets = beta - beta.mean(0)
    largest = float(np.abs(offsets).max())
    if largest <= EVEN:
        return Section(name, title, "Every sample weighs the sources alike.")
    chosen = [int(row) for row in most_unusual(beta, ROWS)]
    pictures = {row: thumbnail(story.predictions.samples[row], images) for row in chosen}
    seen = any(pictures.values())
    if images and not seen:
        story.notes.append(f"No image of the listed samples could be read below {images}.")
    rows = []
    for row in chosen:
        sample = _breakable(story.predictions.samples[row])
        cells: list[object] = [sample, _verdict(story, row)]
        cells.append(f"{story.predictions.confidence[row]:.2f}")
        cells += [_weight(beta[row, i], offsets[row, i] / largest) for i in range(beta.shape[1])]
        rows.append([_picture(pictures[row]), *cells] if seen else cells)
    heads: list[object] = ["sample", "predicted", "confidence", *story.domains]
    caption = (
        "The samples whose weights lie farthest from the mean weights; a bar to the right is more "
        "trust in that source than it has on average, to the left less."
    )
    body = table(["", *heads] if seen else heads, rows, 3 if seen else 2, "samples")
    return Section(name, title, caption, None, body)


def _picture(uri: str | None) -> Markup:
    return tag("img", src=uri, alt="", width=SIDE, height=SIDE) if uri else Markup("")


def _breakable(sample: str) -> Markup:
    """A path that may break after its slashes."""
    parts = sample.replace("/", "/\n").split("\n")
    return tag("span", *(p for part in parts for p in (part, tag("wbr"))), class_="name")


def _verdict(story: Story, row: int) -> Markup:
    assert story.predicted is not None
    predicted = story.classes[story.predicted[row]]
    if story.labels is None:
        return join(predicted)
    if story.labels[row] == story.predicted[row]:
        return join(predicted, tag("small", "right", class_="right"))
    return join(predicted, tag("small", f"is {story.classes[story.labels[row]]}", class_="wrong"))


def _weight(value: float, offset: float) -> Markup:
    """The number, and a bar from the middle: its length is the distance from the mean."""
    side = "left" if offset >= 0 else "right"
    bar = tag("i", class_=side, style=f"width:{50 * abs(offset):.1f}%")
    return join(f"{value:.3f}", tag("span", bar, class_="offset"))


def settings(story: Story) -> Section:
    text = tag("pre", dump(story.history.config))
    body = tag("details", tag("summary", "config.yaml"), text)
    return Section(
        "settings", "Settings", "The resolved config: run it again with --config.", None, body
    )
