"""`export`: a folder that serves without this package, checked before it appears."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from ms_biaten import backend
from ms_biaten.cli import main as ms_main
from ms_biaten.spec import exporting
from ms_biaten.spec.adapted import open_run
from ms_biaten.spec.bank import digest
from ms_biaten.spec.config import Config, Run
from tests.test_predict import rows_of
from tests.thin_runs import MAINS, OPS

FILES = {"mindspore": "model.mindir", "torch": "model.onnx"}

# Runs a graph in a process that cannot import this package.
ALONE = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("ms_biaten", "torch_ref", "torch", "timm"):
            raise ImportError(name)
sys.meta_path.insert(0, Wall())
import numpy as np, mindspore as ms
ms.set_device("CPU")
graph = ms.nn.GraphCell(ms.load(sys.argv[1]))
inputs = np.load(sys.argv[2])
made = {f"{n} {i}": o.asnumpy() for n in inputs for i, o in enumerate(graph(ms.Tensor(inputs[n])))}
np.savez(sys.argv[3], **made)
"""


def alone(cwd, *arguments):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": "", "GLOG_v": "3"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("framework", MAINS)
@pytest.mark.parametrize("run", ["run", "live"])
def test_the_folder_serves_by_itself(at, tmp_path, framework, run, capsys):
    out = tmp_path / "served"
    assert MAINS[framework](["export", run, "--output", str(out)]) == 0
    assert "compared with the live model" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        *("model.json", "predict.py", "images.py"),
        FILES[framework],
    }
    names = sorted(str(path) for path in (at / "clay").rglob("*.png"))
    text = alone(tmp_path, out / "predict.py", *names, "--batch", "7")
    ours = list(csv.DictReader(text.splitlines()))
    theirs = rows_of(at / run / "predictions.csv")
    assert [row["class"] for row in ours] == [row["class"] for row in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for column in ("confidence", "weight_ink", "weight_chalk"):
            assert float(one[column]) == pytest.approx(float(other[column]), abs=2e-5)


def test_mindir_takes_any_batch_without_our_code(at, tmp_path):
    out = tmp_path / "served"
    assert ms_main(["export", "run", "--output", str(out)]) == 0
    rng = np.random.default_rng(0)
    batches = {str(n): rng.integers(0, 256, (n, 32, 32, 3), np.uint8) for n in (64, 1, 7)}
    np.savez(tmp_path / "in.npz", **batches)
    (tmp_path / "alone.py").write_text(ALONE)
    alone(tmp_path, "alone.py", out / "model.mindir", "in.npz", "out.npz")
    made = np.load(tmp_path / "out.npz")

    adapted = open_run(at / "run", backend, Config(run=Run(mode="pynative")), True)
    for name, batch in batches.items():
        (expected,) = exporting.live_outputs(adapted, backend, [batch], "images")
        for i, array in enumerate(expected):
            assert np.abs(made[f"{name} {i}"] - array).max() <= 1e-5
        assert (made[f"{name} 0"].argmax(1) == expected[0].argmax(1)).all()


@pytest.mark.parametrize("framework", MAINS)
def test_from_features(at, tmp_path, framework):
    out = tmp_path / "head"
    assert MAINS[framework](["export", "run", "--output", str(out), "--inputs", "features"]) == 0
    card = json.loads((out / "model.json").read_text())
    assert card["input"] == {"name": "features", "dtype": "float32", "shape": ["batch", 2, 128]}
    assert not (out / "predict.py").exists()


def test_what_travels_with_the_graph(at, tmp_path):
    out = tmp_path / "served"
    assert ms_main(["export", "run", "--output", str(out)]) == 0
    card = json.loads((out / "model.json").read_text())
    assert card["classes"] == ["bar", "disc", "frame"]
    assert card["sources"] == ["ink", "chalk"]
    assert card["preprocess"]["resize"] == [40, 40]
    assert card["preprocess"]["center_crop"] == [32, 32]
    assert card["preprocess"]["inside_the_graph"]["mean"] == pytest.approx([0.485, 0.456, 0.406])
    assert card["outputs"][0] == {"name": "probabilities", "shape": ["batch", 3]}
    assert card["sha256"] == {"model.mindir": digest(out / "model.mindir")}
    assert (out / "model.mindir").stat().st_mode & 0o044  # colleagues may read it


def test_the_graph_names_its_input(at, tmp_path):
    """As model.json does: converters of other runtimes ask for it."""
    for inputs in ("images", "features"):
        out = tmp_path / inputs
        assert ms_main(["export", "run", "--output", str(out), "--inputs", inputs]) == 0
        assert f":{inputs}".encode() in (out / "model.mindir").read_bytes()
        assert json.loads((out / "model.json").read_text())["input"]["name"] == inputs


def test_normalisations_are_folded(at, tmp_path):
    """No batch normalisation is left in the graph, and its weights are those of the fold."""
    out = tmp_path / "served"
    assert ms_main(["export", "run", "--output", str(out)]) == 0
    assert b"BatchNorm" not in (out / "model.mindir").read_bytes()


def test_a_file_that_computes_something_else_never_appears(at, tmp_path, monkeypatch, capsys):
    original = backend.run_exported

    def off(path, batches):
        return [[made[0] + 0.01, *made[1:]] for made in original(path, batches)]

    monkeypatch.setattr(backend, "run_exported", off)
    assert ms_main(["export", "run", "--output", str(tmp_path / "served")]) == 1
    assert "differs from the live model by 1.0e-02" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_half_precision(at, tmp_path, capsys):
    out = tmp_path / "served"
    assert ms_main(["export", "run", "--output", str(out), "--precision", "fp16"]) == 0
    assert json.loads((out / "model.json").read_text())["precision"] == "fp16"
    assert ms_main(["export", "run", "--output", str(tmp_path / "full")]) == 0
    images = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    ours, theirs = (
        backend.run_exported(tmp_path / f / "model.mindir", [images])[0] for f in ("served", "full")
    )
    assert 0 < np.abs(ours[0] - theirs[0]).max() < 0.02
    half = tmp_path / "half"
    asked = ["predict", "run", "clay", *OPS, "--precision", "fp16", "--output", str(half)]
    assert ms_main(asked) == 0
    theirs = rows_of(at / "run/predictions.csv")
    moved = [
        abs(float(a["confidence"]) - float(b["confidence"]))
        for a, b in zip(rows_of(tmp_path / "half.csv"), theirs, strict=True)
    ]
    assert 0 < max(moved) < 0.02  # it is another arithmetic, and nearly the same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--output", "run"], "run is there already"),
        (["nowhere", "--output", "new"], "nowhere: holds no run"),
        (["run", "--output", "/proc/new/served"], "cannot be written"),
        (["run", "--output", "classes.txt/served"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line(at, capsys, arguments, message):
    assert ms_main(["export", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not (at / "new").exists()
