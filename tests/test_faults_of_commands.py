"""Full disks and damaged files in extraction, source training and experiments."""

import shutil

import numpy as np
import pytest

from ms_biaten.spec import extracting, extraction, files, source_training
from ms_biaten.spec.bank import load_bank
from ms_biaten.spec.experiments.record import Record
from ms_biaten.spec.files import link_atomically, reserve
from tests.test_faults import full_disk
from tests.thin_runs import MODEL
from torch_ref.cli import main


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
        lines = [{"epoch": e + 1, "loss": 1.0, "held_out": 50.0} for e in range(epoch)]
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
