"""What makes two runs the same: settings, data and framework, never the place they happen at."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ms_biaten.spec.bank import digest, read_manifest
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.config import Config
from ms_biaten.spec.loading import flatten, to_tree
from ms_biaten.spec.provenance import json_digest
from ms_biaten.spec.run import PLACE
from ms_biaten.spec.target import bank_folder, heads_folder

# The folders of bank and heads are places, too: their content stands in the key.
NOT_IN_KEY = (*PLACE, "data.bank", "data.sources")


def key_of(config: Config, framework: str) -> str:
    """SHA-256 of everything that decides a run's numbers.

    A setting at its default stands for nothing: one that a later release adds changes no key.
    """
    defaults = dict(flatten(to_tree(Config())))
    settings = {
        k: v for k, v in flatten(to_tree(config)) if k not in NOT_IN_KEY and v != defaults[k]
    }
    bank, heads = bank_folder(config), heads_folder(config)
    domains = (
        bank_domains(bank) if bank else benchmark(config.data.benchmark).sources(config.target)
    )
    data = [bank_digest(bank, config.profile.view), heads_digest(heads, domains)]
    return json_digest({"settings": settings, "framework": framework, "data": data})


# The cells of a grid share a few banks: each is read once.


@cache
def bank_domains(folder: Path) -> tuple[str, ...]:
    return tuple(read_manifest(folder)["domains"])


@cache
def bank_digest(folder: Path | None, view: str) -> str:
    """Of the samples, their labels and the features' checksum; a bank made in memory has none."""
    if folder is None:
        return ""
    manifest = read_manifest(folder)
    content = {key: manifest[key] for key in ("domains", "classes", "samples", "labels")}
    return json_digest({**content, "features": manifest["views"].get(view)})


@cache
def heads_digest(folder: Path | None, domains: tuple[str, ...]) -> str:
    files = [folder / f"{domain}.safetensors" for domain in domains] if folder else []
    return json_digest([digest(file) for file in files if file.is_file()])
