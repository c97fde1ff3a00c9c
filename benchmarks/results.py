"""Accuracy over targets, seeds, profiles and methods: runs what is missing, prints the tables.

    python benchmarks/results.py --config emoji --seeds 5 --framework torch \\
        --record benchmarks/results/emoji.jsonl

Every finished run is a line of the record and is not run again.
"""

import argparse
import contextlib
import importlib
import io
import json
import statistics
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.console import METHOD_TITLES
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.profiles import PROFILES
from ms_biaten.spec.target import open_target
from ms_biaten.spec.training import train

BACKENDS = {"mindspore": "ms_biaten.backend", "torch": "torch_ref.backend"}
TRAINED = ("uniform", "aten", "bi_aten")


def cells(config, seeds, profiles):
    """(profile, target, method, seed); what trains nothing has one seed."""
    bench = benchmark(load_config(config).data.benchmark)
    for profile in profiles:
        for target in bench.domains:
            yield profile, target, "bn_only", 0
            for method in TRAINED:
                for seed in range(seeds):
                    yield profile, target, method, seed


def run_cell(config_name, cell, framework_name):
    profile, target, method, seed = cell
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        config = load_config(
            config_name,
            target=target,
            profile=profile,
            settings={"method.name": method, "run.seed": seed, "run.output": f"{folder}/run"},
        )
        framework = importlib.import_module(BACKENDS[framework_name])
        framework.prepare(config)
        lines = train(config, open_target(config), framework, None, "results").lines
    return {
        "config": config_name,
        "profile": profile,
        "target": target,
        "method": method,
        "seed": seed,
        **lines[0]["versions"],
        "baselines": lines[0]["baselines"],
        **{k: lines[-1][k] for k in ("accuracy", "class_accuracy", "beta", "selected_epoch")},
    }


def read_record(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key_of(line):
    return line["profile"], line["target"], line["method"], line["seed"]


def cell_text(values):
    """Mean and sample deviation over seeds; one value alone has none."""
    mean = statistics.mean(values)
    return f"{mean:.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else f"{mean:.1f}"


def table(lines, profile, domains):
    rows = {}
    for target in domains:
        mine = [x for x in lines if x["profile"] == profile and x["target"] == target]
        base = mine[0]["baselines"]
        single = [value for name, value in base.items() if name.startswith("source ")]
        rows.setdefault("mean single source", []).append([statistics.mean(single)])
        rows.setdefault("best single source (chosen with labels)", []).append([max(single)])
        rows.setdefault("AVG-ENS", []).append([base["AVG-ENS"]])
        for method in ("bn_only", *TRAINED):
            values = [x["accuracy"] for x in mine if x["method"] == method]
            rows.setdefault(METHOD_TITLES[method], []).append(values)
    text = [f"| {profile} | {' | '.join('→' + d for d in domains)} | mean |"]
    text.append("|---" * (len(domains) + 2) + "|")
    for name, columns in rows.items():
        seeds = min(len(values) for values in columns)
        means = [statistics.mean(column[i] for column in columns) for i in range(seeds)]
        cells_of_row = [cell_text(values) for values in columns] + [cell_text(means)]
        text.append(f"| {name} | {' | '.join(cells_of_row)} |")
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(prog="python benchmarks/results.py", description=__doc__)
    parser.add_argument("--config", default="emoji")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, default=list(PROFILES))
    parser.add_argument("--framework", choices=list(BACKENDS), default="mindspore")
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--tables", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    options.record.parent.mkdir(parents=True, exist_ok=True)
    lines = read_record(options.record)
    known = {key_of(line) for line in lines}
    wanted = cells(options.config, options.seeds, options.profiles)
    missing = [cell for cell in wanted if cell not in known]
    for cell in tqdm(missing, "runs", disable=None):
        lines.append(run_cell(options.config, cell, options.framework))
        with options.record.open("a") as file:
            file.write(json.dumps(lines[-1]) + "\n")
    domains = benchmark(load_config(options.config).data.benchmark).domains
    text = "\n\n".join(table(lines, p, domains) for p in options.profiles) + "\n"
    print(text)
    if options.tables:
        options.tables.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
