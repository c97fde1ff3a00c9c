"""Which images, in which order, with which labels: list files and folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import write_atomically

SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class ImageList:
    root: Path
    names: tuple[str, ...]  # relative to the root, or absolute
    labels: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> Path:
        return self.root / self.names[index]


def read_list(path: Path, root: Path, classes: int | None = None) -> ImageList:
    """Lines `path label`, or `path` alone where nothing is labelled; every image must be there."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a readable list of images ({error})") from None
    entries = [_entry(line) for line in lines if line.strip()]
    if not entries:
        raise UserError(f"{path}: the list is empty; expected lines 'path label'")
    labelled = entries[0][1] is not None
    for number, (name, label) in enumerate(entries, 1):
        where = f"{path}, line {number}"
        if (label is not None) != labelled:
            raise UserError(f"{where}: labels must stand on every line or on none")
        if label is not None and not 0 <= label < (classes or label + 1):
            raise UserError(f"{where}: label {label} is outside 0..{(classes or 1) - 1}")
        _check_inside(name, root, where)
        if not (root / name).is_file():
            raise UserError(f"{where}: no image at {root / name}; is the root right?")
    names = tuple(name for name, _ in entries)
    labels = tuple(label for _, label in entries if label is not None)
    return ImageList(root, names, labels if labelled else None)


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


def class_folders(root: Path) -> tuple[str, ...]:
    """Sorted names of the sub-folders: the class order of the SHOT family."""
    if not root.is_dir():
        raise UserError(f"{root}: no such folder of images")
    return tuple(sorted(path.name for path in root.iterdir() if path.is_dir()))


def split(images: ImageList, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to validate on, drawn by the seed."""
    order = np.random.default_rng([seed, 0x5D1]).permutation(len(images))
    held = max(1, round(share * len(images)))
    return np.sort(order[held:]), np.sort(order[:held])


def _entry(line: str) -> tuple[str, int | None]:
    """A name may hold blanks: only a last word that is a number is a label."""
    name, blank, last = line.strip().rpartition(" ")
    if blank and last.lstrip("-").isdigit():
        return name.strip(), int(last)
    return line.strip(), None


def _check_inside(name: str, root: Path, where: str) -> None:
    if not Path(name).is_absolute() and ".." in Path(name).parts:
        raise UserError(f"{where}: '{name}' leads out of {root}")


def _images_below(root: Path) -> list[str]:
    if not root.is_dir():
        raise UserError(f"{root}: no such folder of images")
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.suffix.lower() in SUFFIXES and path.is_file()
    )
