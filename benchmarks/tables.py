"""The tables of docs/scaling.md and docs/security.md from the records in benchmarks/results.

python -m benchmarks.tables            prints them; a test holds the page to them
"""

import contextlib
import json

from benchmarks.measuring import ROOT

RESULTS = ROOT / "benchmarks/results"


def record(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def markdown(header, rows):
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def steps():
    """Samples a second of the step, all sizes and methods."""
    rows = []
    for entry in record("adaptation")["results"]:
        if entry["task"] != "step":
            continue
        base = entry["medians"].get("authors")
        for side, row in entry["medians"].items():
            times = row["samples_per_second"] / base["samples_per_second"] if base else None
            rows.append(
                (
                    f"{entry['size']}, {entry['method']}",
                    side,
                    f"{row['samples_per_second']:,.0f}",
                    f"{times:.2f}" if times else "",
                    f"{100 * row['gemm_share']:.0f}%",
                    f"{row['to_first_step_s']:.1f}",
                    f"{row['memory_mb']:,.0f}",
                )
            )
    header = ("size, method", "side", "samples/s", "times the authors'", "of the products alone")
    return markdown((*header, "to the first step, s", "peak memory, MB"), rows)


def passes():
    """Labels, evaluation and whole epochs, at DomainNet's size."""
    rows = []
    for entry in record("adaptation")["results"]:
        if entry["task"] == "step":
            continue
        base = entry["medians"]["authors"]["samples_per_second"]
        for side, row in entry["medians"].items():
            speed = row["samples_per_second"]
            share = f"{100 * row['gemm_share']:.0f}%" if "gemm_share" in row else ""
            rows.append((entry["task"], side, f"{speed:,.0f}", f"{speed / base:.2f}", share))
    header = ("what", "side", "samples/s", "times the authors'", "of the products alone")
    return markdown(header, rows)


def best_rounds():
    """DomainNet's size, by every side's best round: where a machine is shared, the quietest."""
    rows, sides = [], ("mindspore", "mindspore, repeatable", "torch_ref")
    for entry in record("adaptation")["results"]:
        best = {s: max(each) for s, each in entry["samples_per_second_of_each_round"].items()}
        if entry["size"] == "domainnet" and "authors" in best:
            times = [f"{best[side] / best['authors']:.2f}" for side in sides]
            rows.append((entry["task"], *times, f"{best['authors']:,.0f}"))
    return markdown(("times the authors'", *sides, "authors, samples/s"), rows)


def first_steps():
    """Seconds from before the interpreter starts, on the shipped benchmark."""
    found = record("first_step")["medians"]
    stages = {
        "to_framework_s": "framework imported",
        "to_survey_s": "bank read, engine made",
        "to_step_s": "target surveyed",
        "first_step_s": "**first step made**",
    }
    rows = [(name, *(f"{row[key]:.1f}" for row in found.values())) for key, name in stages.items()]
    return markdown(("seconds until", *found), rows)


def profile():
    """Milliseconds of each kind of kernel in MindSpore, Bi-ATEN beside ATEN."""
    return kernels("kernel", {"bi_aten": "Bi-ATEN", "aten": "ATEN"})


def profile_torch():
    """The same in PyTorch, the mirror beside the authors' structure."""
    return kernels("operation", {"torch_ref": "torch_ref", "authors": "authors"})


def kernels(what, shown):
    found = [record("profile")[name] for name in shown]
    kinds = list(dict.fromkeys(kind for part in found for kind in part["kernels_ms"]))

    def row(name, values):
        return (name, *("" if value is None else f"{value:.1f}" for value in values))

    rows = [row(kind, [part["kernels_ms"].get(kind) for part in found]) for kind in kinds]
    rows += [row("other kernels", [part["other_kernels_ms"] for part in found])]
    rows += [row("between kernels, noise", [part["between_kernels_ms"] for part in found])]
    rows += [row("**the step**", [part["step_ms"] for part in found])]
    rows += [row("the products alone", [part["products_of_the_formula_ms"] for part in found])]
    rows += [row("memory, GB/s", [part["memory_gb_s"] for part in found])]
    return markdown((what, *(f"{name}, ms a step" for name in shown.values())), rows)


def scale():
    rows = [
        (
            f"{row['samples']:,}",
            f"{row['profile']}, {row['placement']}",
            f"{row['epoch_s']:,.0f}",
            f"{row['samples_per_second']:,.0f}",
            f"{row['beside_mb']:,.0f}",
        )
        for row in [record("scale")]
    ]
    header = ("samples", "profile, placement", "epoch, s", "samples/s", "memory beside, MB")
    return markdown(header, rows)


def growth():
    rows = []
    for along, found in record("growth")["results"].items():
        for key, value in found["exponents"].items():
            sizes = list(found["medians"])
            ends = [found["medians"][size][key] for size in (sizes[0], sizes[-1])]
            span = f"{int(sizes[0]):,} to {int(sizes[-1]):,}"
            told = " to ".join(f"{end:,.0f}" if end >= 100 else f"{end:.3g}" for end in ends)
            rows.append((along, span, key, told, f"{along}^{value:g}"))
    return markdown(("along", "from", "what", "measured", "heading for"), rows)


def fuzz():
    """Damaged files through every loader; docs/security.md has it."""
    rows = []
    for entry in record("fuzz")["loaders"].values():
        failed = [entry[kind] for kind in ("traceback", "crash", "hang", "memory", "executed")]
        counts = (entry["cases"], entry["accepted"], entry["refused"], *failed)
        ends = (f"{entry['most_memory_mb']}", f"{entry['slowest_cpu_s']:.2f}")
        rows.append((entry["what"], *counts, *ends))
    header = ("file", "cases", "accepted", "refused in one line", "tracebacks", "crashes", "hangs")
    more = ("too much memory", "code executed", "most memory, MB", "slowest, CPU s")
    return markdown((*header, *more), rows)


TABLES = (steps, passes, best_rounds, first_steps, profile, profile_torch, scale, growth, fuzz)


def main():
    for table in TABLES:
        with contextlib.suppress(FileNotFoundError):  # not measured yet
            print(f"\n{table.__name__}\n{table()}")


if __name__ == "__main__":
    main()
