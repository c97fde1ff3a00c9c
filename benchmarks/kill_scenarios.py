"""What is killed: training, extraction, training of a source, a grid; and how each is looked at.

A scenario knows the command that starts it and the one that goes on, checks that every file in its
folder is good at any moment, says how far it came, and gives what it ended with, to the last bit.
"""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from ms_biaten.spec.bank import load_bank, read_manifest
from ms_biaten.spec.checkpoints import Checkpoints
from ms_biaten.spec.described import Description
from ms_biaten.spec.experiments.record import Record
from ms_biaten.spec.history import read_history
from ms_biaten.spec.states import read_state
from tests.pictures import CLASSES, draw_class
from tests.thin_runs import MODEL, thin_sources

# Of a line, from run to run; a checkout may change between two of them.
VARIES = ("seconds", "versions", "samples_per_second", "commit", "clean", "machine")


def told(line):
    kept = {key: value for key, value in line.items() if key not in VARIES}
    return {k: told(v) if k == "provenance" else v for k, v in kept.items()}


@dataclass
class Scenario:
    package: str
    command: list = field(default_factory=list)

    def prepare(self, place):
        """What the command needs, before it is started for the first time."""
        place.mkdir(parents=True)

    def next(self, place):
        """The command that starts or goes on."""
        return self.command

    def is_done(self, code, place):
        return code == 0


class Training(Scenario):
    """Four epochs, a checkpoint after each, the best one kept, too."""

    def __init__(self, package):
        settings = ("train.epochs=4", "attention.width=8", "run.checkpoint_seconds=0")
        settings += ("run.mode=pynative", "run.select=snd")
        given = [part for setting in settings for part in ("--set", setting)]
        start = ["train", "--config", "debug", *given, "--no-report", "--output", "run"]
        super().__init__(package, start)

    def next(self, place):
        if (place / "run/config.yaml").exists():
            return ["train", "--resume", "run", "--no-report"]
        return self.command

    def progress(self, place):
        """Whatever is there must be good: the loaders themselves are asked."""
        return run_progress(place / "run")

    def end(self, place):
        return run_end(place / "run")


def run_progress(run):
    if not (run / "config.yaml").exists():
        return {}
    history = read_history(run)
    checkpoints, found = Checkpoints(run / "checkpoints"), {}
    for path in (run / "checkpoints").glob("[!.]*.safetensors"):
        found[path.stem] = checkpoints.load(path.stem)[1]["epoch"]
    if (run / "model.json").exists():
        Description.of_run(run)
    if (run / "predictions.csv").exists():
        assert (run / "predictions.csv").read_text().count("\n") == 1001
    assert len(history.epochs) >= found.get("last", 0), "an epoch without its line"
    return {"last": found.get("last", 0), "final": int(history.final is not None)}


def run_end(run):
    lines = [told(json.loads(text)) for text in (run / "results.jsonl").read_text().splitlines()]
    arrays = {name: load_file(run / f"checkpoints/{name}.safetensors") for name in ("last", "best")}
    names = sorted(str(path.relative_to(run)) for path in run.rglob("*"))
    return {
        "lines": lines,
        "arrays": arrays,
        "predictions": (run / "predictions.csv").read_bytes(),
        "files": [name for name in names if "before" not in name],
    }


class Extraction(Scenario):
    """Drawn pictures, one of them unreadable, through two thin ResNets, in two views."""

    def __init__(self, package):
        sources = ["--source", "ink=sources", "--source", "chalk=sources", "--mode", "pynative"]
        images = ["--images", "clay", "--classes", "classes.txt", "--target", "clay"]
        more = ["--batch", "2", "--views", "center", "drawn", "--skip-bad", "--workers", "0"]
        command = ["extract", *MODEL, *sources, *images, *more, "--cpu-threads", "1"]
        super().__init__(package, [*command, "--output", "bank"])

    def prepare(self, place):
        super().prepare(place)
        draw_class(place / "clay", "clay", count=12)
        (place / "clay/disc/03.png").write_bytes(b"no picture")
        (place / "classes.txt").write_text("\n".join(CLASSES))
        thin_sources(place / "sources")

    def progress(self, place):
        bank, partial = place / "bank", place / "bank.partial"
        if bank.exists():
            assert not partial.exists()
            for view in read_manifest(bank)["views"]:
                load_bank(bank, view)
            return {"done": 10**6}
        if not (partial / "state.json").exists():
            return {"done": 0}
        state = json.loads((partial / "state.json").read_text())
        for view in ("center", "drawn"):
            np.load(partial / f"{view}.npy", mmap_mode="r")
        if (partial / "manifest.json").exists():
            load_bank(partial)
        for path in partial.glob("heads/[!.]*"):
            load_file(path)
        return {"done": state["done"]}

    def end(self, place):
        bank = place / "bank"
        return {
            "manifest": read_manifest(bank),
            "arrays": {view: np.load(bank / f"{view}.npy") for view in ("center", "drawn")},
            "files": sorted(str(path.relative_to(bank)) for path in bank.rglob("*")),
        }


class Pretraining(Scenario):
    """A thin ResNet, three epochs."""

    def __init__(self, package):
        images = ["--images", "ink", "--classes", "classes.txt", "--labelled", "--domain", "ink"]
        quick = ["--epochs", "3", "--batch", "8", "--width", "16", "--workers", "0"]
        more = ["--mode", "pynative", "--cpu-threads", "1", "--output", "sources"]
        super().__init__(package, ["pretrain", *MODEL, *images, *quick, *more])

    def prepare(self, place):
        super().prepare(place)
        draw_class(place / "ink", "ink", count=8)
        (place / "classes.txt").write_text("\n".join(CLASSES))

    def is_done(self, code, place):
        """Killed when all was written, it is refused: this source is trained already."""
        return code in (0, 2) and (place / "sources/ink.results.jsonl").exists()

    def progress(self, place):
        done = 0
        for path in (place / "sources").glob("[!.]*.safetensors"):
            _, metadata = read_state(path)
            done = max(done, len(json.loads(metadata.get("lines", "[]"))))
        return {"done": 10**6 if (place / "sources/ink.results.jsonl").exists() else done}

    def end(self, place):
        files = {path.name: path.read_bytes() for path in (place / "sources").iterdir()}
        arrays = {name: load_file(place / "sources" / name) for name in files if "safe" in name}
        return {"results": files["ink.results.jsonl"], "arrays": arrays, "files": sorted(files)}


class Grid(Scenario):
    """Four cells, their folders kept."""

    def __init__(self, package):
        grid = ["controls", "--config", "debug", "--targets", "dusk", "--profiles", "paper"]
        settings = ["--set", "train.epochs=1", "--set", "attention.width=8", "--seeds", "1"]
        places = ["--record", "record.jsonl", "--keep", "kept", "--output", "table.md"]
        super().__init__(package, ["experiment", *grid, *settings, *places])

    def progress(self, place):
        found = {"cells": len(Record(place / "record.jsonl").lines)}
        for config in place.glob("kept/*/*/config.yaml"):
            for key, value in run_progress(config.parent).items():
                found[f"{config.parent.name} {key}"] = value
        return found

    def end(self, place):
        lines = [told(line) for line in Record(place / "record.jsonl").lines]
        return {"lines": lines, "table": (place / "table.md").read_text()}


SCENARIOS = {
    "training, MindSpore": Training("ms_biaten"),
    "training, PyTorch": Training("torch_ref"),
    "extraction, MindSpore": Extraction("ms_biaten"),
    "extraction, PyTorch": Extraction("torch_ref"),
    "pretraining, PyTorch": Pretraining("torch_ref"),
    "experiment, PyTorch": Grid("torch_ref"),
}


def difference(one, other, where=""):
    """Where two ends differ by a bit, or None."""
    if isinstance(one, dict) and one.keys() == other.keys():
        found = (difference(one[key], other[key], f"{where} {key}") for key in one)
        return next((place for place in found if place), None)
    if isinstance(one, np.ndarray):
        if one.shape == other.shape and one.dtype == other.dtype:
            apart = np.argwhere(one != other)
            first = f" at {apart[0].tolist()}" if len(apart) else ""
            return f"{where}: {len(apart)} of {one.size} numbers{first}" if len(apart) else None
        return f"{where}: {one.dtype} {one.shape}, {other.dtype} {other.shape}"
    return None if one == other else f"{where}: {str(one)[:200]}, {str(other)[:200]}"


def copied(template: Path, place: Path):
    shutil.copytree(template, place)
    return place
