"""Shared by all tests: a small debug run, in process or as a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture
def command():
    """Runs a Python file or module of the repository as a user would."""

    def run(*arguments, cwd, **environment):
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )

    return run


def results(run):
    return [json.loads(line) for line in (Path(run) / "results.jsonl").read_text().splitlines()]
