"""What a row gains over its control, and whether seeds alone would explain it."""

from __future__ import annotations

import statistics

from ms_biaten.spec.experiments.results import Results, mean_over_targets


def gains(results: Results, profile: str) -> list[str]:
    """One sentence on all rows that have a control; none where no such pair was run."""
    means = {row.title: mean_over_targets(results.accuracies(row, profile)) for row in results.rows}
    parts = []
    for row in results.rows:
        own, control = means[row.title], means.get(row.control)
        if own is not None and control is not None:
            parts.append(f"{row.title} {difference(own, control)} {row.control}")
    return [f"In the mean over targets: {'; '.join(parts)}."] if parts else []


def difference(own: list[float], control: list[float]) -> str:
    """Noise is the deviation over seeds of a mean over targets, the larger of the two rows'."""
    gap = statistics.mean(own) - statistics.mean(control)
    shown = f"{round(gap, 1) + 0.0:+.1f}"  # + 0.0: no minus before a zero
    if len(own) < 2 or len(control) < 2:
        return f"{shown} (one seed: noise unknown) against"
    noise = max(statistics.stdev(own), statistics.stdev(control))
    place = "above" if abs(gap) > noise else "within"
    return f"{shown} ({place} the seed noise, {noise:.1f}) against"
