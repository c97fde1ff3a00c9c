"""Files of earlier releases stay readable: tests/golden/format1 was written by the one before.

`unfinished` was stopped in its second of two epochs, `run` is what became of it then.
"""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ms_biaten.spec.adapted import folder_of
from ms_biaten.spec.bank import load_bank
from ms_biaten.spec.weights import read_metadata
from tests.conftest import ROOT, results
from tests.thin_runs import MAINS

OLD = ROOT / "tests/golden/format1"


@pytest.fixture
def old(folder):
    shutil.copytree(OLD, folder, dirs_exist_ok=True)
    return folder


def test_an_old_bank_is_read(old):
    bank = load_bank(old / "bank")
    assert bank.features.shape == (60, 3, 48)
    assert json.loads((old / "bank/manifest.json").read_text())["version"] == 1


@pytest.mark.parametrize("framework", MAINS)
def test_an_old_run_goes_on(old, framework, capsys):
    assert MAINS[framework](["train", "--resume", "unfinished", "--no-report"]) == 0
    assert "resumed after epoch 1 of 2" in capsys.readouterr().out
    new, known = results(old / "unfinished"), results(OLD / "run")
    assert [line["kind"] for line in new] == [line["kind"] for line in known]
    for one, other in zip(new, known, strict=True):
        shared = [k for k in other if isinstance(other[k], float) and k != "seconds"]
        assert [one[k] for k in shared] == pytest.approx([other[k] for k in shared], abs=1e-5)
    files = [place / "checkpoints/best.safetensors" for place in (old / "unfinished", OLD / "run")]
    written, before = map(load_file, files)
    assert written.keys() == before.keys()
    assert all(np.allclose(written[k], before[k], atol=1e-5) for k in before)
    # What is written anew is written in the format of today.
    assert [read_metadata(file)["format"] for file in files] == ["2", "1"]


def test_a_finished_old_run_is_of_use(old):
    arrays, position = folder_of(old / "run").load_checkpoint("best")
    assert position["epoch"] == 2
    assert "model.bottlenecks.weight" in arrays
    for command in (["report", "run"], ["select", "run"], ["compare", "run", "run"]):
        assert MAINS["torch"](command) == 0


def test_files_of_a_later_release_are_refused_by_name(old, capsys):
    checkpoint = old / "unfinished/checkpoints/last.safetensors"
    metadata = read_metadata(checkpoint) | {"format": "99"}
    save_file(load_file(checkpoint), checkpoint, metadata)
    assert MAINS["torch"](["train", "--resume", "unfinished"]) == 2
    assert "last.safetensors: checkpoint format 99" in capsys.readouterr().err

    manifest = old / "bank/manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 99'))
    assert MAINS["torch"](["train", "--resume", "unfinished"]) == 2
    line = capsys.readouterr().err
    assert "manifest.json: bank version 99" in line
    assert "update ms_biaten" in line
