"""The tables of docs/scaling.md and docs/security.md from the records in benchmarks/results.

python -m benchmarks.tables            prints them; a test holds the page to them
"""

import contextlib
import json
from statistics import median

from benchmarks.cores_apart import named
from benchmarks.measuring import ROOT
from benchmarks.plots import rounded

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


def near_and_far():
    """DomainNet's size, by processor and by how far its two cores were from each other.

    Of the rounds of `python -m benchmarks`, which have the distance beside them, too.
    """
    found = {}  # {(processor, cores): {(task, method, side): samples per second of each round}}
    for place, measured, speed in (*rounds_of_adaptation(), *rounds_of_distances()):
        found.setdefault(place, {}).setdefault(measured, []).append(speed)
    rows = [row for place, speeds in found.items() for row in ratios(*place, speeds)]
    header = ("times the authors'", "processor", "cores", *OURS, "authors, samples/s", "rounds")
    return markdown(header, rows)


OURS = ("mindspore", "torch_ref")
PROCESSORS = ("2 x AMD EPYC", "2 x AMD EPYC, family 25, model 17")  # as the page counts them


def numbered(processor):
    return str(PROCESSORS.index(processor) + 1) if processor in PROCESSORS else processor


def rounds_of_adaptation():
    for whole in (record("adaptation"), record("adaptation_2")):
        for entry in whole["results"]:
            for side, speeds in entry["samples_per_second_of_each_round"].items():
                apart = map(named, entry["cores_ns_of_each_round"][side])
                for speed, cores in zip(speeds, apart, strict=True):
                    if entry["size"] == "domainnet" and entry["task"] != "evaluate":
                        measured = entry["task"], entry["method"], side
                        yield (whole["processor"], cores), measured, speed


def rounds_of_distances():
    for row in record("near_and_far")["rounds"]:
        measured = row["task"], row["method"], row["side"]
        yield (row["processor"], row["cores"]), measured, row["samples_per_second"]


def ratios(processor, cores, speeds):
    """Rows of what has a round of every side."""

    def rounds(task, method, sides=OURS):
        return [speeds.get((task, method, side)) for side in sides]

    place = numbered(processor), cores
    for task in ("step", "labels", "epoch"):
        ours, theirs = rounds(task, "bi_aten"), rounds(task, "bi_aten", ("authors",))
        if all(ours + theirs):
            theirs_speed = f"{median(*theirs):,.0f}"
            yield (task, *place, *over(ours, 2 * theirs), theirs_speed, counted(ours + theirs))
    light, whole = rounds("step", "aten"), rounds("step", "bi_aten")
    if all(light + whole):
        yield (
            "ATEN's step, times Bi-ATEN's",
            *place,
            *over(light, whole),
            "",
            counted(light + whole),
        )


def over(these, those):
    pairs = zip(these, those, strict=True)
    return [f"{median(one) / median(other):.2f}" for one, other in pairs]


def counted(rounds):
    """How many, of the fewest and the most."""
    fewest, most = min(map(len, rounds)), max(map(len, rounds))
    return fewest if fewest == most else f"{fewest} to {most}"


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
    columns = {
        f"{title}, {numbered(processor)}": measured[name]
        for processor, measured in record("profile")["processors"].items()
        for name, title in shown.items()
    }
    found = list(columns.values())
    kinds = list(dict.fromkeys(kind for part in found for kind in part["kernels_ms"]))

    def row(name, values):
        return (name, *("" if value is None else f"{value:.1f}" for value in values))

    rows = [row(kind, [part["kernels_ms"].get(kind) for part in found]) for kind in kinds]
    rows += [row("other kernels", [part["other_kernels_ms"] for part in found])]
    rows += [row("between kernels, noise", [part["between_kernels_ms"] for part in found])]
    rows += [row("**the step**", [part["step_ms"] for part in found])]
    rows += [row("the products alone", [part["products_of_the_formula_ms"] for part in found])]
    rows += [row("memory, GB/s", [part["memory_gb_s"] for part in found])]
    rows += [("cores", *(part["cores"] for part in found))]
    return markdown((what, *columns), rows)


def scale():
    rows = [
        (
            f"{row['samples']:,}",
            f"{row['profile']}, {row['placement']}",
            numbered(row["processor"]),
            f"{row['epoch_s']:,.0f}",
            f"{row['samples_per_second']:,.0f}",
            f"{row['beside_mb']:,.0f}",
        )
        for row in record("scale")["rows"]
    ]
    header = ("samples", "profile, placement", "processor", "epoch, s", "samples/s")
    header = (*header, "memory beside, MB")
    return markdown(header, rows)


def growth():
    rows = []
    for along, found in record("growth")["results"].items():
        for key, value in found["exponents"].items():
            sizes = list(found["medians"])
            ends = [found["medians"][size][key] for size in (sizes[0], sizes[-1])]
            span = f"{int(sizes[0]):,} to {int(sizes[-1]):,}"
            told = " to ".join(map(rounded, ends))
            place = numbered(found["processor"])
            rows.append((along, span, key, place, told, f"{along}^{value:g}"))
    return markdown(("along", "from", "what", "processor", "measured", "heading for"), rows)


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


TABLES = (
    steps,
    passes,
    near_and_far,
    first_steps,
    profile,
    profile_torch,
    scale,
    growth,
    fuzz,
)


def main():
    for table in TABLES:
        with contextlib.suppress(FileNotFoundError):  # not measured yet
            print(f"\n{table.__name__}\n{table()}")


if __name__ == "__main__":
    main()
