"""Where the numbers of a run come from: code, machine, data and start, as its results record them.

The first line of the results has `about`, the last one the digests of what came out.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ms_biaten.spec.bank import Bank, digest, read_manifest
from ms_biaten.spec.config import Config
from ms_biaten.spec.sources import weights_digest
from ms_biaten.spec.target import Target, bank_folder
from ms_biaten.spec.weights import Arrays

PACKAGE = Path(__file__).resolve().parents[1]
PATIENCE = 5.0  # seconds for git: on a slow network disk a run begins without its commit


def about(config: Config, target: Target, start: Arrays, workers: int) -> dict[str, Any]:
    return {
        **checkout(PACKAGE),
        "machine": machine(config, workers),
        "seed": config.run.seed,
        "data": data_of(config, target),
        "start": weights_digest(start),
    }


def results_of(weights: str, predictions: Path) -> dict[str, str | None]:
    """SHA-256 of the selected weights' arrays and of the table of predictions."""
    written = predictions.is_file()  # a worker that does not write may come before the file
    return {"weights": weights, "predictions": digest(predictions) if written else None}


# -- code and machine -----------------------------------------------------------------------------


@cache
def checkout(package: Path) -> dict[str, Any]:
    """The commit that the package is run from, and whether it is all; null where nobody knows."""
    unknown = {"commit": None, "clean": None}
    # A package inside somebody else's repository, an environment in it say, has another commit.
    if git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return unknown
    commit = git(package, "rev-parse", "HEAD")
    changes = git(package.parent, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return unknown
    return {"commit": commit.strip(), "clean": not changes.strip()}


def git(folder: Path, *arguments: str) -> str | None:
    # Without what a hook sets: its repository need not be ours.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
            env={**own, "GIT_OPTIONAL_LOCKS": "0"},  # looking changes nothing
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None


def machine(config: Config, workers: int) -> dict[str, Any]:
    return {
        "platform": platform.platform(),
        "processor": processor(Path("/proc/cpuinfo")),
        "cores": os.cpu_count(),
        "device": config.run.device,
        "cpu_threads": config.run.cpu_threads,
        "workers": workers,
    }


def processor(table: Path) -> str:
    """Its name where Linux tells it, and its family and model: many that differ share a name."""
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    said: dict[str, str] = {}
    for key, colon, value in (line.partition(":") for line in lines):
        if colon:
            said.setdefault(key.strip(), value.strip())
    if not said.get("model name"):
        return platform.processor() or platform.machine()
    numbered = {"family": "cpu family", "model": "model"}
    known = [f"{name} {said[key]}" for name, key in numbered.items() if key in said]
    return ", ".join([said["model name"], *known])


# -- data -----------------------------------------------------------------------------------------


def data_of(config: Config, target: Target) -> dict[str, Any]:
    """SHA-256 of the bank's samples and labels, of its features, and of each source's heads."""
    bank = target.bank
    labels = None if bank.labels is None else np.asarray(bank.labels).tolist()
    heads = zip(bank.domains, target.heads, strict=True)
    return {
        "bank": json_digest([bank.domains, bank.classes, bank.samples, labels]),
        "features": features_digest(config, bank),
        "heads": {domain: weights_digest(arrays) for domain, arrays in heads},
    }


def features_digest(config: Config, bank: Bank) -> str:
    """Of the file, as its manifest says it and loading has checked; of the array without a file."""
    folder, view = bank_folder(config), config.profile.view
    if not folder:
        return weights_digest({view: bank.features})
    return read_manifest(folder)["views"][view] or digest(folder / f"{view}.npy")


def json_digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def changed(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between the data of two runs, by name."""
    names = {"bank": "the bank's samples or labels", "features": "the bank's features"}
    found = [what for key, what in names.items() if recorded.get(key) != now.get(key)]
    one, other = (dict(data.get("heads", {})) for data in (recorded, now))
    return found + [
        f"the heads of {domain}"
        for domain in {**one, **other}
        if one.get(domain) != other.get(domain)
    ]
