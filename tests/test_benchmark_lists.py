"""`lists`: list files of a benchmark from its folders, and every folder that does not fit."""

import os
from pathlib import Path

import pytest

from ms_biaten.cli import main
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.lists import class_folders, read_list, scan_folder
from ms_biaten.spec.orders import class_order

COMMAND = ["lists", "--benchmark", "office_caltech", "--images", "images", "--output", "lists"]
CLASSES = class_order("office_caltech")


@pytest.fixture
def images(folder):
    """Office-Caltech with empty files, its folders named as some release names them."""
    for domain in ("Amazon", "caltech10", "dslr", "web cam"):
        for name in CLASSES:
            (folder / "images" / domain / name).mkdir(parents=True)
            for index in range(1 + (name == "mug")):
                (folder / "images" / domain / name / f"{index}.JPG").touch()
    return folder / "images"


def refused(capsys, *arguments):
    assert main([*COMMAND, *arguments]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    (line,) = streams.err.splitlines()
    return line


def test_lists_are_sorted_labelled_and_counted(images, folder, capsys):
    assert main(COMMAND) == 0
    assert (folder / "lists/classes.txt").read_text().split() == list(CLASSES)
    for domain, place in (("amazon", "Amazon"), ("caltech", "caltech10"), ("webcam", "web cam")):
        found = read_list(folder / f"lists/{domain}.txt", images, CLASSES)
        assert found.names[0] == f"{place}/backpack/0.JPG"
        assert list(found.names) == sorted(found.names)
        assert found.labels == (0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9)
    out = capsys.readouterr().out
    assert "amazon            11  1 (backpack), 2 (mug)" in out
    before = (folder / "lists/dslr.txt").read_bytes()
    assert main(COMMAND) == 0
    assert (folder / "lists/dslr.txt").read_bytes() == before


def test_labels_follow_the_order(folder, tmp_path):
    from ms_biaten.spec.benchmark_lists import scan_benchmark
    from ms_biaten.spec.benchmarks import benchmark

    classes = class_order("office_home/lists")
    for domain in ("Art", "Clipart", "Product", "RealWorld"):
        for name in classes:
            (tmp_path / domain / name).mkdir(parents=True)
            (tmp_path / domain / name / "a.jpg").touch()
    found = scan_benchmark(benchmark("office_home"), tmp_path, classes)["Real_World"]
    assert found.names[:2] == ("RealWorld/Alarm_Clock/a.jpg", "RealWorld/Backpack/a.jpg")
    assert found.labels[:2] == (33, 32)


def test_what_does_not_fit_is_one_line(images, folder, capsys):
    (images / "dslr/mug").rename(folder / "mug")
    assert "images/dslr: no folder of class 'mug'" in refused(capsys)
    (folder / "mug").rename(images / "dslr/mug")

    (images / "dslr/cup").mkdir()
    assert "images/dslr/cup: not a class of office_caltech" in refused(capsys)
    (images / "dslr/cup").rename(images / "dslr/.cup")  # hidden folders are nobody's class

    (images / "dslr/bike/0.JPG").unlink()
    assert "class 'bike' has no image" in refused(capsys)

    (images / "dslr").rename(folder / "dslr")
    assert "no folder of domain 'dslr'; there are: Amazon, caltech10, web cam" in refused(capsys)

    (images / "caltech").mkdir()
    assert "caltech and caltech10 may both be domain 'caltech'" in refused(capsys)
    assert not (folder / "lists").exists()


def test_other_names_of_the_classes_ask_for_their_order(images, capsys):
    for domain in images.iterdir():
        (domain / "backpack").rename(domain / "back_pack")
        (domain / "laptop").rename(domain / "laptop_computer")
    assert "classes of office_caltech/office31; pass --order office31" in refused(capsys)
    assert main([*COMMAND, "--order", "office31"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--images", "nowhere"], "nowhere: no such folder of images"),
        (["--order", "lists"], "--order lists: office_caltech has plain, office31"),
        (["--benchmark", "emoji"], "--benchmark emoji: lists are made for domainnet"),
        (["--benchmark", "ofice_home"], "did you mean 'office_home'?"),
    ],
)
def test_a_mistake_is_one_line(images, capsys, arguments, message):
    assert message in refused(capsys, *arguments)


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(images, capsys, monkeypatch):
    """As root nothing is forbidden, so the system call itself refuses here."""
    original = os.scandir

    def scandir(path="."):
        if str(path).endswith("mug"):
            raise PermissionError(13, "Permission denied", str(path))
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert "Amazon/mug: cannot be read (Permission denied)" in refused(capsys)
    with pytest.raises(UserError, match="mug: cannot be read"):
        scan_folder(images)


def test_a_root_that_cannot_be_read_is_told(images, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UserError, match="images: cannot be read"):
        class_folders(images)
