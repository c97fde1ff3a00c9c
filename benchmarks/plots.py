"""The figures of the benchmarks."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {
    "mindspore": "#c23b22",
    "mindspore, repeatable": "#e8907f",
    "torch_ref": "#2f6db5",
    "authors": "#8a8a8a",
}


def adaptation(results, path):
    """Samples a second of every side, one panel for each task and size."""
    columns = min(3, len(results))
    lines = -(-len(results) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(4 * columns, 2.6 * lines), squeeze=False)
    for axis in axes.flat[len(results) :]:
        axis.axis("off")
    for axis, entry in zip(axes.flat, results, strict=False):
        rows = entry["medians"]
        values = [row["samples_per_second"] for row in rows.values()]
        axis.barh(list(rows), values, color=[COLOURS[side] for side in rows])
        axis.invert_yaxis()
        axis.set_title(f"{entry['task']}, {entry['size']}, {entry['method']}", fontsize=9)
        axis.set_xlabel("samples per second", fontsize=8)
        axis.tick_params(labelsize=8)
        for place, value in enumerate(values):
            axis.text(value, place, f" {value:,.0f}", va="center", fontsize=8)
        axis.margins(x=0.22)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
