"""Full disks, lost permissions, damaged files: one line, nothing earlier lost, and it goes on."""

import json
import os
import resource
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import torch_ref.adapt
from ms_biaten.spec import extracting, extraction, files, source_training
from ms_biaten.spec.bank import load_bank
from ms_biaten.spec.checkpoints import Checkpoints
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.experiments.record import Record
from ms_biaten.spec.files import link_atomically, reserve
from ms_biaten.spec.locks import Lock
from ms_biaten.spec.run import RunFolder
from tests.conftest import results
from tests.thin_runs import MODEL
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


# -- training -----------------------------------------------------------------------------------


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
    first = {"epoch": 1, "best": {"epoch": 1, "value": 0.5}}
    for name in ("best", "last"):
        checkpoints.save(name, {"a": np.ones(2)}, first)
    second = {"epoch": 2, "best": {"epoch": 2, "value": 0.7}}
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


# -- the other commands -------------------------------------------------------------------------


def extract(bank, *more):
    sources = ["--source", "ink=sources", "--source", "chalk=sources"]
    images = ["--images", "clay", "--classes", "classes.txt", "--target", "clay"]
    return main(["extract", *MODEL, *sources, *images, "--output", str(bank), *more])


def test_an_extraction_asks_for_its_room_first(at, tmp_path, monkeypatch, capsys):
    def refuse(*arguments):
        raise AssertionError("work before there is room for it")

    with monkeypatch.context() as patch, full_disk(10_000):
        patch.setattr(extracting, "features_of", refuse)
        assert extract(tmp_path / "bank") == 1
    assert "bank.partial/center.npy: File too large" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.npy"))
    assert extract(tmp_path / "bank") == 0


def test_images_are_left_out_once_although_killed_between_two_views(at, tmp_path, monkeypatch):
    shutil.copytree("clay", tmp_path / "clay")
    (tmp_path / "clay/disc/00.png").write_bytes(b"no picture")
    more = ["--images", str(tmp_path / "clay"), "--skip-bad", "--views", "center", "drawn"]
    assert extract(tmp_path / "whole", *more) == 0
    original, calls = extraction.np.save, []

    def save(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(extraction.np, "save", save)
        assert extract(tmp_path / "bank", *more) == 130
    assert extract(tmp_path / "bank", *more) == 0
    for view in ("center", "drawn"):
        one, other = (load_bank(tmp_path / name, view) for name in ("whole", "bank"))
        assert (one.features == other.features).all()


def test_a_record_on_a_full_disk_keeps_its_lines(tmp_path):
    record = Record(tmp_path / "record.jsonl")
    record.append({"accuracy": 1})
    with full_disk(40), pytest.raises(OSError, match="record"):
        record.append({"accuracy": 2, "more": "x" * 100})
    assert (tmp_path / "record.jsonl").stat().st_size == 40  # half a line is there
    again = Record(tmp_path / "record.jsonl")
    assert (again.torn, len(again.lines)) == (True, 1)
    again.append({"accuracy": 3})
    assert [line["accuracy"] for line in Record(tmp_path / "record.jsonl").lines] == [1, 3]


def test_the_state_of_a_source_has_one_before_it(tmp_path, capsys):
    path, identity = tmp_path / "ink.state.safetensors", {"lr": "1"}
    for epoch in (1, 2):
        lines = [{"epoch": e + 1} for e in range(epoch)]
        source_training.write_state(path, identity, lines, {}, {"a": np.full(3, epoch)})
    path.unlink()
    path.write_bytes(b"half")
    lines, _, arrays = source_training.read_state(path, identity)
    assert (len(lines), arrays["a"].tolist()) == (1, [1, 1, 1])
    assert "going on from" in capsys.readouterr().out
    assert len(source_training.read_state(path, identity)[0]) == 1


def test_file_systems_without_links_or_reservation(tmp_path, monkeypatch):
    def unable(*arguments):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files.os, "link", unable)
    monkeypatch.setattr(files.os, "posix_fallocate", unable)
    (tmp_path / "a").write_bytes(b"content")
    link_atomically(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"content"
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(3 << 20)
    reserve(tmp_path / "holes")
    found = (tmp_path / "holes").stat()
    assert (found.st_size, found.st_blocks * 512 >= 3 << 20) == (3 << 20, True)
