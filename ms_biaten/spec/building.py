"""The command `build`: a benchmark from its images: lists, a source per domain, a bank per target.

    ms-biaten build --benchmark office_home --images OfficeHome --backbone resnet50 \\
        --weights resnet50.safetensors --output data/office_home

Each step goes on where it was stopped and is skipped where it is done.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_biaten.spec import benchmark_lists, console
from ms_biaten.spec.benchmarks import Benchmark
from ms_biaten.spec.extracting import add_storing_options, extract_command
from ms_biaten.spec.image_options import add_model_options
from ms_biaten.spec.pretraining import add_training_options, pretrain_command


def add_options(parser: argparse.ArgumentParser) -> None:
    benchmark_lists.add_options(parser)
    add_step_options(parser)


def add_step_options(parser: argparse.ArgumentParser) -> None:
    """All that `pretrain` and `extract` are told, but for names, images and folders."""
    add_model_options(parser)
    add_training_options(parser)
    add_storing_options(parser)


@dataclass(frozen=True)
class Places:
    """Where the lists are and where sources and banks go."""

    images: Path
    lists: Path
    sources: Path
    banks: Path
    source_list: str = "{domain}.txt"
    target_list: str = "{domain}.txt"

    def options(self, name: str) -> dict[str, Any]:
        """Which images, as `image_options` would have read it."""
        files = {"list": self.lists / name, "classes": str(self.lists / "classes.txt")}
        return {"images": self.images, "labelled": False, **files}


def build_command(options: Namespace, backend: str, program: str) -> None:
    bench = benchmark_lists.benchmark_of(options.benchmark)
    root = options.output
    places = Places(options.images, root / "lists", root / "sources", root / "banks")
    benchmark_lists.make_lists(bench, options.images, options.order, places.lists)
    build(bench, places, options, backend, program)


def build(bench: Benchmark, places: Places, options: Namespace, backend: str, program: str) -> None:
    """Trains every domain, then extracts every target with the other domains as its sources."""
    for domain in bench.domains:
        if (places.sources / f"{domain}.results.jsonl").exists():
            console.say(f"-- source {domain} is there already")
            continue
        console.say(f"-- pretrain {domain}")
        images = places.options(places.source_list.format(domain=domain))
        new = {"domain": domain, "output": places.sources}
        pretrain_command(Namespace(**{**vars(options), **images, **new}), backend, program)
    for target in bench.domains:
        console.say(f"-- extract {target}")
        images = places.options(places.target_list.format(domain=target))
        sources = [f"{domain}={places.sources}" for domain in bench.sources(target)]
        more = {"target": target, "source": sources, "output": places.banks / target}
        extract_command(Namespace(**{**vars(options), **images, **more}), backend, program)


def add_to(table: Any) -> None:
    parser = table.add_parser("build", help="a benchmark's images into sources and feature banks")
    add_options(parser)
    parser.set_defaults(command=build_command)
