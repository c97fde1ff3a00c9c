"""The feature bank: the frozen backbones' features of every target sample, computed once.

A folder with `center.npy`, and perhaps `drawn.npy`, both (M, N, R) and memory-mapped, and
`manifest.json`, written last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ms_biaten.spec.checks import (
    by_name,
    different,
    each,
    is_plain_name,
    is_text,
    is_whole,
    or_none,
)
from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.orders import check_order
from ms_biaten.spec.reading import map_array, read_json

FORMAT, VERSION = "ms_biaten.bank", 1
VIEWS = ("center", "drawn")


@dataclass(frozen=True)
class Bank:
    """The features of every target sample under every source, with their names."""

    target: str
    domains: tuple[str, ...]  # the sources, N
    classes: tuple[str, ...]  # C names, in label order
    samples: tuple[str, ...]  # M names, for example image paths
    features: np.ndarray  # (M, N, R), float16 or float32
    labels: np.ndarray | None = None  # (M,) int, only ever used to measure

    def __len__(self) -> int:
        return len(self.samples)

    def rows(self, rows: np.ndarray) -> np.ndarray:
        return self.features[rows].astype(np.float32)

    def batches(
        self, rows: Iterable[np.ndarray], epoch: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """What an epoch's steps see of these rows, in their order."""
        for batch in rows:
            yield batch, self.rows(batch)

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        """The whole target in order, `size` samples at a time."""
        for start in range(0, len(self), size):
            yield self.features[start : start + size].astype(np.float32)

    def span(self, rows: slice) -> Bank:
        """These rows alone, as a bank; nothing is read or copied."""
        labels = None if self.labels is None else self.labels[rows]
        return replace(
            self, samples=self.samples[rows], features=self.features[rows], labels=labels
        )

    def refresh(self, extract: Callable[[np.ndarray], np.ndarray]) -> None:
        """Features of frozen backbones stay what they are; `image_bank` has others."""


def collected(parts: Iterable[np.ndarray], count: int) -> np.ndarray:
    """Parts of `count` rows in all as one array; they are never in memory twice."""
    made, done = np.empty(0), 0
    for part in parts:
        if not done:
            made = np.empty((count, *part.shape[1:]), part.dtype)
        made[done : done + len(part)] = part
        done += len(part)
    return made


def in_groups(parts: Iterable[Any], rows: int) -> Iterator[list[Any]]:
    """Tuples of arrays of a few rows each, in lists of `rows` rows or more in all."""
    group: list[Any] = []
    for part in parts:
        group.append(part)
        if sum(len(first) for first, *_ in group) >= rows:
            yield group
            group = []
    if group:
        yield group


def save_bank(folder: Path, bank: Bank, views: Mapping[str, np.ndarray] | None = None) -> None:
    """A bank made in memory; `views` are further views of the same samples, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for view, features in {"center": bank.features, **(views or {})}.items():
        with write_atomically(folder / f"{view}.npy") as file:
            np.save(file, features)
    write_manifest(folder, bank, ["center", *(views or {})], {})


def write_manifest(
    folder: Path,
    bank: Bank,
    views: Iterable[str],
    origin: dict[str, Any],
    skipped: Sequence[str] = (),
    models: Mapping[str, str] | None = None,
) -> None:
    """Written last: a folder without a manifest is no bank. `origin` says how it was made."""
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "target": bank.target,
        "domains": bank.domains,
        "classes": bank.classes,
        "views": {view: digest(folder / f"{view}.npy") for view in views},
        "origin": origin,
        "models": dict(models or {}),
        "skipped": list(skipped),
        "samples": bank.samples,
        "labels": None if bank.labels is None else bank.labels.tolist(),
    }
    with write_atomically(folder / "manifest.json") as file:
        file.write(json.dumps(manifest, indent=1).encode())


def load_bank(folder: Path, view: str = "center") -> Bank:
    """One view of the samples, checked against its checksum."""
    manifest = read_manifest(folder)
    if view not in manifest["views"]:
        raise UserError(
            f"{folder}: has no '{view}' view, only {', '.join(manifest['views'])}; extract with "
            f"--views {view}, or set profile.view"
        )
    path = folder / f"{view}.npy"
    features = map_array(path, "extract the bank again")
    expected = manifest["views"][view]
    if expected is not None and digest(path) != expected:
        raise UserError(f"{path}: its content is not what the manifest says; extract it again")
    bank = Bank(
        target=manifest["target"],
        domains=tuple(manifest["domains"]),
        classes=tuple(manifest["classes"]),
        samples=tuple(manifest["samples"]),
        features=features,
        labels=None if manifest["labels"] is None else np.asarray(manifest["labels"]),
    )
    shape = (len(bank.samples), len(bank.domains))
    if features.ndim != 3 or features.shape[:2] != shape:
        raise UserError(
            f"{path}: shape {features.shape}, but the manifest lists {shape[0]} samples and "
            f"{shape[1]} sources: expected ({shape[0]}, {shape[1]}, width)"
        )
    if features.dtype not in (np.float16, np.float32):
        raise UserError(f"{path}: expected float16 or float32, found {features.dtype}")
    return bank


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def check_bank(bank: Bank, config: Config, class_count: int, where: str) -> None:
    """Does this bank fit the config? Everything that would fail later, or silently, fails here."""
    sources, width = len(bank.domains), bank.features.shape[2]
    if sources < 2:
        raise UserError(f"{where}: {sources} source; weighing sources needs at least 2")
    if bank.target != config.target:
        raise UserError(f"{where}: made for target '{bank.target}', not '{config.target}'")
    if config.model.raw_width not in (0, width):
        raise UserError(
            f"{where}: features are {width} wide, but model.raw_width is "
            f"{config.model.raw_width}; use the backbone of the config or set model.raw_width"
        )
    if len(bank.classes) != class_count:
        raise UserError(
            f"{where}: {len(bank.classes)} classes, but {config.data.benchmark} has {class_count}"
        )
    check_order(config.data.benchmark, bank.classes, where)
    if config.train.batch_size > len(bank):
        raise UserError(
            f"train.batch_size: {config.train.batch_size} is larger than the target set "
            f"({len(bank)} samples) of {where}"
        )
    check_labels(bank, where)
    start = 0
    for chunk in bank.chunks(config.run.eval_batch):
        bad = ~np.isfinite(chunk).all(axis=(1, 2))
        if bad.any():
            row = start + int(np.argmax(bad))
            raise UserError(
                f"{where}: NaN or Inf in the features of sample {row} ('{bank.samples[row]}'); "
                "extract it again"
            )
        start += len(chunk)


def check_labels(bank: Bank, where: str) -> None:
    """One label in range for each sample, or none at all."""
    if bank.labels is None:
        return
    labels = np.asarray(bank.labels)
    if labels.shape != (len(bank),) or labels.dtype.kind not in "iu":
        raise UserError(f"{where}: expected {len(bank)} whole-number labels, or none at all")
    outside = (labels < 0) | (labels >= len(bank.classes))
    if outside.any():
        row = int(np.argmax(outside))
        raise UserError(
            f"{where}: label {labels[row]} of sample {row} ('{bank.samples[row]}') is outside "
            f"0..{len(bank.classes) - 1}"
        )


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a bank says of itself, checked; its features are not read."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise UserError(
            f"no feature bank at {folder} (manifest.json is missing); "
            "set data.bank to the folder of an extracted target, see docs/bank.md"
        )
    manifest = read_json(path, "extract it again")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(f"{path}: not the manifest of a feature bank")
    if manifest.get("version") != VERSION:
        raise UserError(
            f"{path}: bank version {manifest.get('version')!r}, this release reads {VERSION}; "
            "update ms_biaten, or extract it again"
        )
    check_names(manifest, path)
    if not is_text(manifest.get("target")):
        raise UserError(f"{path}: 'target' is missing or not a text")
    for key in ("samples", "skipped"):
        if not each(is_text)(manifest.setdefault(key, [] if key == "skipped" else None)):
            raise UserError(f"{path}: '{key}' is missing or not a list of texts")
    views = manifest.get("views")
    if not isinstance(views, dict) or not all(_is_view(*item) for item in views.items()):
        raise UserError(f"{path}: 'views' must give each of center, drawn its SHA-256, or null")
    check_origin(manifest, path)
    if not or_none(each(is_whole))(manifest.setdefault("labels", None)):
        raise UserError(f"{path}: 'labels' must be null or a list of whole numbers")
    return manifest


def check_names(tree: Mapping[str, Any], path: Path) -> None:
    """Sources and classes of a manifest or a model; a source's name becomes a file's."""
    for key, test in (("domains", is_plain_name), ("classes", is_text)):
        names = tree.get(key)
        if not isinstance(names, list) or not all(map(test, names)) or not different(names):
            plain = " without '/', since they name files" if key == "domains" else ""
            raise UserError(f"{path}: '{key}' is missing or not a list of texts, each once{plain}")


def check_origin(tree: dict[str, Any], path: Path) -> None:
    """How the features were made, and where the sources' files were."""
    if not isinstance(tree.setdefault("origin", {}), dict):
        raise UserError(f"{path}: 'origin' must be an object")
    if not by_name(is_text)(tree.setdefault("models", {})):
        raise UserError(f"{path}: 'models' must give each source a folder")


def _is_view(name: Any, checksum: Any) -> bool:
    return name in VIEWS and (checksum is None or isinstance(checksum, str))
