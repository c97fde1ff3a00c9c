"""An extraction on its way: a folder beside the bank that survives a kill, renamed at the end.

<bank>.partial/state.json   what is extracted, with what, how far it came
<bank>.partial/<view>.npy   (M, N, R), filled from the front
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ms_biaten.spec.bank import Bank, read_manifest, write_manifest
from ms_biaten.spec.checks import by_name, is_count, is_text
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.files import (
    remove_unfinished,
    reserve,
    sync_folder,
    write_at,
    write_atomically,
)
from ms_biaten.spec.reading import map_array, read_json


@dataclass(frozen=True)
class Plan:
    """What will be extracted; `origin` is all that decides a feature's value."""

    target: str
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    samples: tuple[str, ...]
    labels: tuple[int, ...] | None
    views: tuple[str, ...]
    width: int
    dtype: str
    origin: dict[str, Any]  # backbones with their checksums, transform, seed
    models: dict[str, str] = field(default_factory=dict)  # folders of the sources, from the bank

    def identity(self) -> dict[str, Any]:
        """As JSON gives it back, lists for tuples; where the sources lie decides no feature."""
        plain: dict[str, Any] = json.loads(json.dumps(self.__dict__))
        del plain["models"]
        return plain


def finished(bank: Path, plan: Plan) -> bool:
    """Is this very bank there already? Another one in its place is an error."""
    if not bank.exists():
        return False
    manifest = read_manifest(bank)
    wanted = plan.identity()
    found = {**manifest, "views": list(manifest["views"])}
    keys = ("target", "domains", "classes", "views", "origin")
    changed = [key for key in keys if found[key] != wanted[key]]
    # With --skip-bad the bank holds fewer samples than were asked for, and says which.
    skipped = set(manifest.get("skipped", []))
    if [s for s in wanted["samples"] if s not in skipped] != manifest["samples"]:
        changed.append("samples")
    if changed:
        raise UserError(
            f"{bank}: holds a bank with other {', '.join(changed)}; delete it or pass another "
            "--output"
        )
    return True


def forget_state(bank: Path) -> None:
    """How far it came; a whole bank needs none. A kill may have left it."""
    (bank / "state.json").unlink(missing_ok=True)


def _file_of(view: str) -> str:
    return f"{view}.npy"


class Unwritten:
    """The unfinished bank as all workers but one have it: how far it came, and no files."""

    def __init__(self, done: int):
        self.done, self.bad = done, dict[int, str]()

    def put(self, rows: np.ndarray, features: Mapping[str, np.ndarray]) -> None: ...

    def save(self) -> None: ...


class Partial(Unwritten):
    """The unfinished bank: opened new or where it was left."""

    def __init__(self, bank: Path, plan: Plan):
        super().__init__(0)
        self.bank, self.plan = bank, plan
        self.folder = bank.with_name(bank.name + ".partial")
        state = self._read_state()
        if state is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._make_room()
            self.save()
        else:
            self.done = state["done"]
            self.bad = {int(row): why for row, why in state["bad"].items()}
            self._check_lengths()
        remove_unfinished(self.folder, "state.json", "manifest.json", *map(_file_of, plan.views))
        remove_unfinished(self.folder / "heads", *(f"{d}.safetensors" for d in plan.domains))

    def put(self, rows: np.ndarray, features: Mapping[str, np.ndarray]) -> None:
        """Written, not mapped: a disk that fills would end a process that writes to a map."""
        for view, values in features.items():
            with np.errstate(over="ignore"):  # told below, in our words
                stored = values.astype(self.plan.dtype)
            if not np.isfinite(stored).all():
                raise RunError(
                    f"a feature as large as {np.abs(values).max():.3g} does not fit "
                    f"{self.plan.dtype}; delete {self.folder} and extract with --dtype float32"
                )
            with self._path(view).open("rb+", buffering=0) as file:
                first = self._array(view).offset
                for row, content in zip(rows.tolist(), stored, strict=True):
                    write_at(file, first + row * content.nbytes, content.tobytes())

    def save(self) -> None:
        """Features first, then how far they reach: the state never promises too much."""
        for view in self.plan.views:
            with self._path(view).open("rb+") as file:
                os.fsync(file.fileno())
        state = {"plan": self.plan.identity(), "done": self.done, "bad": self.bad}
        with write_atomically(self.folder / "state.json") as file:
            file.write(json.dumps(state).encode())

    def finish(self) -> Bank:
        """Manifest last, then the folder takes its name, and is no longer on its way."""
        plan = self.plan
        good = [row for row in range(len(plan.samples)) if row not in self.bad]
        if not good:
            raise UserError(f"{self.bank}: not one of {len(plan.samples)} images could be read")
        if self.bad:
            self._leave_out(good)
        labels = None if plan.labels is None else np.asarray(plan.labels)[good]
        bank = Bank(
            target=plan.target,
            domains=plan.domains,
            classes=plan.classes,
            samples=tuple(plan.samples[row] for row in good),
            features=self._array(plan.views[0]),
            labels=labels,
        )
        skipped = [plan.samples[row] for row in sorted(self.bad)]
        write_manifest(self.folder, bank, plan.views, plan.origin, skipped, plan.models)
        self.folder.rename(self.bank)
        sync_folder(self.bank.parent)
        forget_state(self.bank)
        return bank

    def _leave_out(self, good: Sequence[int]) -> None:
        for view in self.plan.views:
            array = self._array(view)
            if len(array) == len(good):  # done before a kill
                continue
            with write_atomically(self._path(view)) as file:
                np.save(file, array[good])

    def _make_room(self) -> None:
        """Files of zeros, at their full size; on a disk that is too small, none."""
        plan = self.plan
        shape = (len(plan.samples), len(plan.domains), plan.width)
        open_memmap: Any = np.lib.format.open_memmap  # NumPy leaves it without types
        for path in map(self._path, plan.views):
            try:
                open_memmap(path, "w+", np.dtype(plan.dtype), shape)
                reserve(path)
            except OSError as error:
                for made in map(self._path, plan.views):
                    made.unlink(missing_ok=True)
                raise OSError(error.errno, error.strerror, str(path)) from None

    def _check_lengths(self) -> None:
        rows = len(self.plan.samples)
        left_out = len(self.bad) if self.done == rows else 0  # a kill may fall after `_leave_out`
        for view in self.plan.views:
            if len(self._array(view)) not in (rows, rows - left_out):
                raise UserError(f"{self._path(view)}: cut short; delete {self.folder}")

    def _path(self, view: str) -> Path:
        return self.folder / _file_of(view)

    def _array(self, view: str) -> np.memmap:
        path, plan = self._path(view), self.plan
        array = map_array(path, f"delete {self.folder}")
        if array.shape[1:] != (len(plan.domains), plan.width) or array.dtype != plan.dtype:
            raise UserError(
                f"{path}: {array.dtype} of shape {array.shape} is not what this extraction writes; "
                f"delete {self.folder}"
            )
        return array

    def _read_state(self) -> dict[str, Any] | None:
        path = self.folder / "state.json"
        if not path.is_file():
            return None
        state = read_json(path, f"delete {self.folder}")
        rows = len(self.plan.samples)
        saved, wanted = _parts_of(state, rows), self.plan.identity()
        if saved is None:
            raise UserError(f"{path}: not the state of an extraction; delete {self.folder}")
        changed = [key for key in wanted if saved.get(key) != wanted[key]]
        if changed:
            raise UserError(
                f"{self.folder}: holds an unfinished extraction with other {', '.join(changed)}; "
                "delete it or pass another --output"
            )
        return state


def _parts_of(state: Any, rows: int) -> dict[str, Any] | None:
    """The plan of a state on disk, where the rest of it is sound as well."""
    if not isinstance(state, dict) or not isinstance(state.get("plan"), dict):
        return None
    done: Any = state.get("done")
    bad: Any = state.get("bad")
    if not is_count(done) or done > rows or not by_name(is_text)(bad):
        return None
    known = {str(row) for row in range(done)}
    return dict(state["plan"]) if set(bad) <= known else None
