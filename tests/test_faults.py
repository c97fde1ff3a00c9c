"""Full disks, lost permissions, damaged files: one line, nothing earlier lost, and it goes on."""

import json
import os
import resource
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import torch_ref.adapt
from ms_biaten.spec.checkpoints import Checkpoints
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.locks import Lock
from ms_biaten.spec.run import RunFolder
from tests.conftest import results
from torch_ref.cli import main

SETTINGS = ("train.epochs=3", "attention.width=8", "run.checkpoint_seconds=0", "run.select=snd")
TRAIN = ["train", "--config", "debug", "--no-report"]
for setting in SETTINGS:
    TRAIN += ["--set", setting]
RESUME = ["train", "--resume", "run", "--no-report"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("whole") / "run"
    assert main([*TRAIN, "--output", str(place)]) == 0
    return place


def same_end(run, whole):
    for name in ("last", "best"):
        one, other = (load_file(p / f"checkpoints/{name}.safetensors") for p in (run, whole))
        assert all((one[key] == other[key]).all() for key in other)
    kinds, others = ([(li["kind"], li["snd"]) for li in results(p)] for p in (run, whole))
    assert kinds == others
    assert (run / "predictions.csv").read_bytes() == (whole / "predictions.csv").read_bytes()
    assert not list(run.rglob(".*"))


@contextmanager
def full_disk(size):
    """No file grows beyond `size` bytes: the system's own refusal, in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def stop_in_epoch(monkeypatch, epoch, action):
    """Something happens in the middle of an epoch."""
    original, count = torch_ref.adapt.Adapter.step, iter(range(10**6))

    def step(self, *arguments):
        if next(count) == (epoch - 1) * 16 + 5:
            action()
        return original(self, *arguments)

    monkeypatch.setattr(torch_ref.adapt.Adapter, "step", step)


def interrupt():
    raise KeyboardInterrupt


def broken_off(monkeypatch, epoch):
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        stop_in_epoch(patch, epoch, interrupt)
        main([*TRAIN, "--output", "run"])


def test_a_disk_that_fills_in_a_training(folder, whole, monkeypatch, capsys):
    broken_off(monkeypatch, 2)
    before = (folder / "run/checkpoints/last.safetensors").read_bytes()
    with full_disk(10_000):
        assert main(RESUME) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert "run/checkpoints/" in told
    assert "File too large; go on with: python -m torch_ref train --resume run" in told
    assert (folder / "run/checkpoints/last.safetensors").read_bytes() == before
    assert main(RESUME) == 0
    same_end(folder / "run", whole)


def test_permissions_that_are_taken_away(whole, monkeypatch, capsys):
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        monkeypatch.chdir(place)
        checkpoints = Path("run/checkpoints")
        stop_in_epoch(monkeypatch, 2, lambda: checkpoints.chmod(0o555))
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)  # to root, nothing is forbidden
        try:
            assert main([*TRAIN, "--output", "run"]) == 1
            told = capsys.readouterr().err.splitlines()[-1]
            assert "run/checkpoints/" in told
            assert "Permission denied; go on with:" in told
            checkpoints.chmod(0o755)
            assert main(RESUME) == 0
        finally:
            os.seteuid(user)
        same_end(Path("run"), whole)


@pytest.mark.parametrize("damage", ["a flipped bit", "half", "gone"])
def test_a_damaged_checkpoint_is_left_for_the_one_before(
    folder, whole, monkeypatch, capsys, damage
):
    broken_off(monkeypatch, 3)
    path = folder / "run/checkpoints/last.safetensors"
    content = bytearray(path.read_bytes())
    path.unlink()  # not written in place: `before` may be another name of the same file
    content[-1] ^= 1
    if damage != "gone":
        path.write_bytes(content if damage == "a flipped bit" else content[:1000])
    capsys.readouterr()
    assert main(RESUME) == 0
    told = capsys.readouterr().out
    assert "last.safetensors: not a readable checkpoint" in told
    assert "before.safetensors" in told
    assert "resumed after epoch 1 of 3" in told
    same_end(folder / "run", whole)


def test_a_finished_run_with_damaged_weights_is_mended(folder, whole, capsys):
    assert main([*TRAIN, "--output", "run"]) == 0
    path = folder / "run/checkpoints/last.safetensors"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert main(RESUME) == 0
    assert "resumed after epoch 2 of 3" in capsys.readouterr().out
    same_end(folder / "run", whole)


def test_checkpoints_of_the_first_format_are_read(folder, whole, monkeypatch):
    broken_off(monkeypatch, 2)
    checkpoints = Checkpoints(folder / "run/checkpoints")
    for name in ("last", "best"):
        arrays, position = checkpoints.load(name)
        metadata = {"format": "1", "position": json.dumps(position)}
        save_file(arrays, checkpoints.path(name), metadata)
    assert main(RESUME) == 0
    same_end(folder / "run", whole)


def test_what_a_kill_left_half_written_is_removed(folder, whole, monkeypatch):
    broken_off(monkeypatch, 2)
    for name in ("run/.results.jsonl.abc.writing", "run/checkpoints/.best.safetensors.a.writing"):
        (folder / name).write_bytes(b"half")
    (folder / "run/.lock").write_text("process 1 on another machine")
    assert main(RESUME) == 0
    same_end(folder / "run", whole)


def test_a_folder_of_a_run_killed_at_once_is_free(folder, whole):
    (folder / "run").mkdir()
    (folder / "run/.lock").write_text("")
    (folder / "run/.config.yaml.abc.writing").write_text("half")
    assert main([*TRAIN, "--output", "run"]) == 0
    same_end(folder / "run", whole)


def test_a_best_epoch_that_last_does_not_know_is_put_back(tmp_path):
    """Killed between the two: another device may judge the epoch otherwise the second time."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    first = {"epoch": 1, "step": 16, "seed": 0, "best": {"epoch": 1, "value": 0.5}}
    for name in ("best", "last"):
        checkpoints.save(name, {"a": np.ones(2)}, first)
    second = {"epoch": 2, "step": 32, "seed": 0, "best": {"epoch": 2, "value": 0.7}}
    checkpoints.save("best", {"a": np.zeros(2)}, second)
    checkpoints.go_on(first)
    assert checkpoints.load("best")[1] == first


def test_a_best_value_is_remembered_with_its_own_epoch_alone(folder, monkeypatch):
    """A line that cannot be written leaves the checkpoint of the epoch before as it was."""
    values, original = iter([0.5, 0.1, 0.9]), RunFolder.write

    def write(self, line):
        if line.get("epoch") == 3:
            raise OSError("no space left")
        original(self, line)

    def judged(rule, line, position):
        value = next(values)
        best = position["best"]
        if best is None or value > best["value"]:
            position["best"] = {"epoch": line["epoch"], "value": value}
            return True
        return False

    monkeypatch.setattr(RunFolder, "write", write)
    monkeypatch.setattr("ms_biaten.spec.algorithm.choose", judged)
    often = ["--set", "run.checkpoint_seconds=1000"]
    assert main([*TRAIN, *often, "--output", "run"]) == 1
    position = Checkpoints(folder / "run/checkpoints").load("last")[1]
    assert (position["epoch"], position["best"]["epoch"]) == (2, 1)


def test_two_locks(tmp_path):
    held = Lock(tmp_path / ".lock", tmp_path)
    with held, pytest.raises(UserError, match=f"in use by process {os.getpid()} on"):
        Lock(tmp_path / ".lock", tmp_path)
    assert not list(tmp_path.iterdir())
