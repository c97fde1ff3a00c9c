"""Which images, in which order, with which labels: list files and folders."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.orders import order_of_folders
from ms_biaten.spec.reading import read_text

LABEL = re.compile("-?[0-9]{1,9}")  # not what Python takes for digits beside: '²', thousands
SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class ImageList:
    """Image files below a folder, perhaps with labels."""

    root: Path
    names: tuple[str, ...]  # relative to the root, or absolute
    labels: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> Path:
        return self.root / self.names[index]


def read_list(path: Path, root: Path, classes: Sequence[str] | None = None) -> ImageList:
    """Lines `path label`, or `path` alone where nothing is labelled; every image must be there.

    An image in a folder named like one of the classes must have the label of that class.
    """
    lines = read_text(path, "a list of images").splitlines()
    numbered = {n: _entry(line) for n, line in enumerate(lines, 1) if line.strip()}
    entries = list(numbered.values())
    if not entries:
        raise UserError(f"{path}: the list is empty; expected lines 'path label'")
    labelled = entries[0][1] is not None
    count = None if classes is None else len(classes)
    for number, (name, label) in numbered.items():
        where = f"{path}, line {number}"
        if (label is not None) != labelled:
            raise UserError(f"{where}: labels must stand on every line or on none")
        if label is not None and not 0 <= label < (count or label + 1):
            raise UserError(f"{where}: label {label} is outside 0..{(count or 1) - 1}")
        if not is_file(inside(name, root, where)):
            raise UserError(f"{where}: no image at {root / name}; is the root right?")
    if classes is not None:
        _check_folders(path, numbered, classes)
    names = tuple(name for name, _ in entries)
    labels = tuple(label for _, label in entries if label is not None)
    return ImageList(root, names, labels if labelled else None)


def listed(names: Sequence[str], root: Path, where: str) -> ImageList:
    """Images by their names below a folder; every one must be there."""
    for name in names:
        if not is_file(inside(name, root, where)):
            raise UserError(f"{where}: no image at {root / name}; is the folder right?")
    return ImageList(root, tuple(names))


def write_list(path: Path, images: ImageList) -> None:
    lines = list(images.names)
    if images.labels is not None:
        lines = [f"{n} {label}" for n, label in zip(images.names, images.labels, strict=True)]
    with write_atomically(path) as file:
        file.write("".join(line + "\n" for line in lines).encode())


def scan_folder(root: Path) -> ImageList:
    """Every image below a folder, sorted, without labels."""
    names = _images_below(root)
    if not names:
        raise UserError(
            f"{root}: no images; expected files ending in {', '.join(sorted(SUFFIXES))}"
        )
    return ImageList(root, tuple(names))


def scan_classes(root: Path, classes: Sequence[str]) -> ImageList:
    """`root/<class>/...`: the label is the place of the folder's name among the classes."""
    names: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = _images_below(root / name)
        if not found:
            raise UserError(f"{root / name}: class '{name}' has no image")
        names += [f"{name}/{image}" for image in found]
        labels += [label] * len(found)
    return ImageList(root, tuple(names), tuple(labels))


def read_classes(path: Path) -> tuple[str, ...]:
    """Class names, one a line, in label order."""
    lines = read_text(path, "a list of classes").splitlines()
    classes = tuple(line.strip() for line in lines if line.strip())
    if len(set(classes)) != len(classes) or len(classes) < 2:
        raise UserError(f"{path}: expected at least two class names, each once")
    return classes


def class_folders(root: Path) -> tuple[str, ...]:
    """Names of the sub-folders as Python sorts them, capitals first; hidden ones are none."""
    try:
        found = [path.name for path in root.iterdir() if path.is_dir()]
    except OSError as error:
        raise _unreadable(error, root) from None
    return tuple(sorted(name for name in found if not name.startswith(".")))


def split(images: ImageList, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to validate on, drawn by the seed."""
    order = np.random.default_rng([seed, 0x5D1]).permutation(len(images))
    held = max(1, round(share * len(images)))
    return np.sort(order[held:]), np.sort(order[:held])


def _entry(line: str) -> tuple[str, int | None]:
    """A name may hold blanks: only a last word that is a number is a label."""
    name, blank, last = line.strip().rpartition(" ")
    if blank and LABEL.fullmatch(last):
        return name.strip(), int(last)
    return line.strip(), None


def inside(name: str, root: Path, where: str) -> Path:
    """The path of a listed name, which must lie below the root; links on the way are followed."""
    path = Path(name)
    below = not path.is_absolute() or path.is_relative_to(root.absolute())
    if ".." in path.parts or not below:
        remedy = "name a folder above it as the root" if path.is_absolute() else "mend the name"
        raise UserError(f"{where}: '{name}' leads out of {root}; {remedy}")
    return root / path


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than any file's
        return False


def _check_folders(
    path: Path, numbered: dict[int, tuple[str, int | None]], classes: Sequence[str]
) -> None:
    """Labels of another class order would silently measure, or train, the wrong thing."""
    label_of = {name: label for label, name in enumerate(classes)}
    named = {n: (Path(name).parent.name, label) for n, (name, label) in numbered.items()}
    for number, (folder, label) in named.items():
        if label is None or label_of.get(folder, label) == label:
            continue
        order = order_of_folders((f, lb) for f, lb in named.values() if lb is not None)
        remedy = (
            f"the whole list is in the order {order}: pass --classes {order}"
            if order
            else "pass --classes in the order of the list's labels, or mend the list"
        )
        raise UserError(
            f"{path}, line {number}: label {label} is class '{classes[label]}', but the image is "
            f"in folder '{folder}'; {remedy}"
        )


def _images_below(root: Path) -> list[str]:
    def stop(error: OSError) -> None:  # by default a folder that cannot be read looks empty
        raise _unreadable(error, root)

    paths = [
        Path(folder, name)
        for folder, _, names in os.walk(root, onerror=stop)
        for name in names
        if Path(name).suffix.lower() in SUFFIXES
    ]
    try:
        return sorted(path.relative_to(root).as_posix() for path in paths if path.is_file())
    except OSError as error:
        raise _unreadable(error, root) from None


def _unreadable(error: OSError, root: Path) -> UserError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return UserError(f"{error.filename or root}: no such folder of images")
    return UserError(
        f"{error.filename or root}: cannot be read ({error.strerror}); its images would be left "
        "out, so give yourself the right to read it"
    )
