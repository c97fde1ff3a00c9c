"""The figures of docs/results.md by name, each computed from a committed file.

Records: benchmarks/results/*.jsonl. Beside them the manifest of the shipped bank (how many images
and classes), the configs (epochs) and, inside the tables, the paper's own numbers (paper.yaml).
"""

import math
import statistics
from itertools import pairwise

from benchmarks.measuring import ROOT
from benchmarks.recorded import recorded
from ms_biaten.spec.bank import read_manifest
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.experiments.catalogue import EXPERIMENTS
from ms_biaten.spec.experiments.layout import markdown_text
from ms_biaten.spec.experiments.results import mean_over_targets
from ms_biaten.spec.loading import load_config

RECORDS = {name: ROOT / f"benchmarks/results/{name}.jsonl" for name in ("emoji", "office_caltech")}
GRIDS = {  # a table's name on the page: experiment, benchmark, seeds
    "controls": ("controls", "emoji", 5),
    "others": ("table3", "emoji", 3),
    "end_to_end": ("end_to_end", "emoji", 1),
    "ablations": ("table4", "emoji", 3),
    "office": ("table3", "office_caltech", 3),
}
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Means:
    """Accuracies of one experiment by the titles of its rows."""

    def __init__(self, name):
        experiment, bench, seeds = GRIDS[name]
        self.results = recorded(experiment, RECORDS[bench], bench, seeds=seeds)
        self.rows = {row.title: row for row in self.results.rows}
        self.text = markdown_text(EXPERIMENTS[experiment].tables(self.results)).strip()

    def by_target(self, title, profile="paper"):
        """Target -> accuracies over seeds."""
        columns = self.results.accuracies(self.rows[title], profile)
        return dict(zip(self.results.targets, columns, strict=True))

    def mean(self, title, profile="paper"):
        if title == "AVG-ENS":
            found = [self.results.baselines(profile, target) for target in self.results.targets]
            return statistics.mean(base[title] for base in found)
        columns = self.results.accuracies(self.rows[title], profile)
        return statistics.mean(mean_over_targets(columns))

    def gain(self, title, control, profile="paper"):
        return self.mean(title, profile) - self.mean(control, profile)

    def wins(self, title, control):
        """Targets where a row is above its control by more than the deviation over seeds."""
        own, other = self.by_target(title), self.by_target(control)
        return [target for target in own if above(own[target], other[target])]

    def runs(self, title):
        row = self.rows[title]
        return [self.results.runs(row, "paper", target)[0] for target in self.results.targets]


def above(own, other):
    noise = max(deviation(own), deviation(other))
    return statistics.mean(own) - statistics.mean(other) > noise


def deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def span(values, digits=1):
    """`0.6 to 1.3`, or one number where both ends read the same."""
    ends = [f"{end:.{digits}f}" for end in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def facts():
    means = {name: Means(name) for name in GRIDS}
    return {
        **{f"table_{name}": part.text for name, part in means.items()},
        **setting_facts(means["controls"]),
        **control_facts(means["controls"]),
        **other_facts(means["others"], means["ablations"]),
        **end_to_end_facts(means["end_to_end"]),
        **office_facts(means["office"]),
    }


def setting_facts(controls):
    versions = next(iter(controls.results.lines.values()))["versions"]
    manifest = read_manifest(ROOT / "ms_biaten/data/emoji/twemoji")
    return {
        "python": versions["python"],
        "torch": versions["torch"].partition("+")[0],
        "emoji_images": str(len(manifest["samples"])),
        "emoji_classes": str(len(manifest["classes"])),
        "emoji_sources": WORDS[len(manifest["domains"])],
        "emoji_epochs": str(load_config("emoji").train.epochs),
        "caltech_classes": str(benchmark("office_caltech").class_count),
    }


def control_facts(controls):
    profiles, attention = controls.results.profiles, ("ATEN", "Bi-ATEN")
    share = controls.mean("Bi-ATEN") / 100
    images = len(read_manifest(ROOT / "ms_biaten/data/emoji/twemoji")["samples"])
    return {
        "bn_gain": span([controls.gain("BN re-estimated", "AVG-ENS", p) for p in profiles]),
        "uniform_gain": span([controls.gain("uniform weights", "AVG-ENS", p) for p in profiles]),
        "attention_gain": span(
            [controls.gain(title, "uniform weights", p) for title in attention for p in profiles]
        ),
        "emoji_targets": WORDS[len(controls.results.targets)],
        "bi_aten_wins": WORDS[len(controls.wins("Bi-ATEN", "uniform weights"))],
        "sampling_error": f"{100 * math.sqrt(share * (1 - share) / images):.1f}",
    }


def other_facts(others, ablations):
    seeds = others.by_target("CAiDA")["twemoji"]
    plugged = [others.gain(f"{title} + ATEN", title) for title in ("DECISION", "CAiDA")]
    weights = others.gain("DECISION + ATEN", "DECISION, uniform")
    return {
        "plugged_epochs": str(load_config("emoji", settings={"method.name": "caida"}).train.epochs),
        "caida_spread": f"{max(seeds) - min(seeds):.1f}",
        "plugged_gain": " and ".join(f"{gain:.1f}" for gain in plugged),
        "decision_aten_gain": f"{weights:.1f}",
        "date_uniform": f"{others.mean('DATE, uniform'):.1f}",
        "intra_gain": f"{ablations.gain('w/o L_intra', 'Bi-ATEN'):.1f}",
    }


def end_to_end_facts(trained):
    frozen, live = "DECISION + ATEN", "DECISION + ATEN, end to end"
    runs = trained.runs(live)
    parameters = [part[0]["trained_parameters"] / 1e6 for part in (runs, trained.runs(frozen))]
    config = load_config("emoji", settings={"method.name": "decision"})
    return {
        "decision_epochs": str(config.train.epochs),
        "live_wins": WORDS[len(trained.wins(live, frozen))],
        "live_minutes": span([run["seconds"] / 60 for run in runs], digits=0),
        "live_parameters": f"{parameters[0]:.1f}",
        "frozen_parameters": f"{parameters[1]:.1f}",
    }


def office_facts(office):
    trained = [title for title in office.rows if title != "BN re-estimated"]
    gains = [office.gain(title, "AVG-ENS") for title in trained]
    others = [office.mean(title) for title in trained if title != "SHOT, averaged"]
    moved = [spread_of_weights(office, title) for title in ("DECISION", "CAiDA", "DATE")]
    return {
        "office_gain": span(gains),
        "office_range": f"{max(gains) - min(gains):.1f}",
        "shot_behind": f"{min(others) - office.mean('SHOT, averaged'):.1f}",
        "weights_move": f"{max(moved):.1f}",
        "dslr_step": f"{smallest_step(office.results, 'dslr'):.1f}",
    }


def spread_of_weights(office, title):
    found = [office.mean(name) for name in (title, f"{title}, uniform", f"{title} + ATEN")]
    return max(found) - min(found)


def smallest_step(results, target):
    """Between two accuracies of a target: one image."""
    lines = [line for cell, line in results.lines.items() if cell.target == target]
    seen = sorted({value for line in lines for value in line["accuracies"]})
    return min(b - a for a, b in pairwise(seen) if b - a > 1e-6)
