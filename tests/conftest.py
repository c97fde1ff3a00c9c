"""Shared by all tests: a small debug run, in process or as a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ms_biaten.runtime import prepare
from ms_biaten.spec.config import Config

# MindSpore takes its threads once in the life of a process, from whoever comes first: one for each
# kernel, or tests of equal bits would depend on their order.
prepare(Config())

ROOT = Path(__file__).resolve().parents[1]
SMALL = [
    "--config",
    "debug",
    "--set",
    "train.epochs=2",
    "--set",
    "attention.width=8",
    "--set",
    "run.mode=pynative",
    "--no-report",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder: runs/ appears there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def studio(tmp_path_factory):
    """Finished runs; see `tests/thin_runs.py`."""
    from tests.thin_runs import make_runs

    return make_runs(tmp_path_factory.mktemp("studio"))


@pytest.fixture
def at(studio, monkeypatch):
    """In the folder of those runs."""
    monkeypatch.chdir(studio)
    return studio


@pytest.fixture
def command():
    """Runs a Python file or module of the repository as a user would."""

    def run(*arguments, cwd, stdin="", **environment):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=cwd,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )

    return run


def results(run):
    return [json.loads(line) for line in (Path(run) / "results.jsonl").read_text().splitlines()]
