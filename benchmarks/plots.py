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
        axis.locator_params(axis="x", nbins=5)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def growth(results, what, path):
    """Time and memory along each size, both axes logarithmic."""
    figure, axes = plt.subplots(2, len(results), figsize=(4 * len(results), 6), squeeze=False)
    names = {"M": "target samples M", "N": "sources N", "C": "classes C"}
    for column, (along, found) in enumerate(results.items()):
        sizes = [int(size) for size in found["medians"]]
        rows = list(found["medians"].values())
        for line, keys in enumerate((what[along], ("memory_mb",))):
            axis = axes[line, column]
            for key in keys:
                label = f"{key.rsplit('_', 1)[0]}: {along}^{found['exponents'][key]:g}"
                axis.loglog(sizes, [row[key] for row in rows], "o-", label=label)
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
            shown = [rows[place][keys[0]] for place in (0, len(rows) // 2, -1)]
            axis.set_yticks(shown, map(rounded, shown), fontsize=7)
            axis.minorticks_off()
            axis.set_xlabel(names[along], fontsize=8)
            axis.set_ylabel(("seconds", "peak memory, MB")[line], fontsize=8)
            axis.grid(which="both", alpha=0.25)
            axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def rounded(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
