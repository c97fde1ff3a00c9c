"""Files of a trained source: a backbone, and heads in the names of docs/bank.md.

Each project has its own three files; which project it was is seen from the files that are there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ms_biaten.spec.backbone_files import metadata_of
from ms_biaten.spec.console import say
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.renaming import to_heads
from ms_biaten.spec.weights import (
    Arrays,
    check_arrays,
    check_stored_classes,
    read_metadata,
    source_shapes,
    write_safetensors,
)


def layouts(folder: Path, domain: str) -> dict[str, list[Path]]:
    """Where each project keeps a domain: backbone, then one or two files of heads."""
    shot = ("source_F.pt", "source_B.pt", "source_C.pt")
    initial = domain[:1].upper()  # SHOT and DECISION name a domain's folder by its first letter
    return {
        "ms_biaten": [folder / f"{domain}.backbone.safetensors", folder / f"{domain}.safetensors"],
        "Bi-ATEN's release": [
            folder / f"{domain}_{part}.pth" for part in ("backbone", "bottleneck", "myclf")
        ],
        "SHOT, by initial": [folder / initial / name for name in shot],
        "SHOT, this folder": [folder / name for name in shot],
    }


def find_source(folder: Path, domain: str) -> list[Path]:
    """The files of the one project that has this domain in the folder."""
    known = layouts(Path(folder), domain)
    found = [files for files in known.values() if files[0].is_file()]
    if len(found) > 1:
        both = " and ".join(str(files[0]) for files in found)
        raise UserError(f"{folder}: {both} are both there; keep one, or name a folder with one")
    if not found:
        names = ", ".join(str(files[0].relative_to(folder)) for files in known.values())
        raise UserError(f"{folder}: no trained source '{domain}'; looked for {names}")
    return found[0]


def check_classes(folder: Path, domain: str, classes: Sequence[str]) -> None:
    """Sources of ours say their class order: it must be the one that is asked for."""
    *_, heads = find_source(folder, domain)
    if heads.is_file():
        check_stored_classes(heads, read_metadata(heads), classes, "--classes")


def read_heads(files: Sequence[Path], raw_width: int, read: Callable[[Path], Arrays]) -> Arrays:
    """Heads from one file, or from a bottleneck's and a classifier's."""
    parts = {file: to_heads(read(file), file, say) for file in files}
    heads = {name: array for part in parts.values() for name, array in part.items()}
    shapes = shapes_of(heads, raw_width)
    belongs = [("bottleneck.", "bn."), ("fc.",)] if len(files) == 2 else [("",)]
    for (file, part), prefixes in zip(parts.items(), belongs, strict=True):
        check_arrays(part, {k: s for k, s in shapes.items() if k.startswith(prefixes)}, str(file))
    return {name: heads[name] for name in shapes}


def shapes_of(heads: Arrays, raw_width: int) -> dict[str, tuple[int, ...]]:
    """What heads must look like: D and C are the file's own, R is the backbone's."""

    def size(name: str, unknown: Any) -> Any:
        return len(heads[name]) if name in heads and heads[name].ndim else unknown

    return source_shapes(raw_width, size("bottleneck.bias", "D"), size("fc.bias", "C"))


def write_source(
    folder: Path,
    domain: str,
    backbone_name: str,
    backbone: Arrays,
    heads: Arrays,
    classes: Sequence[str] | None = None,
) -> None:
    """The backbone and the heads as docs/bank.md describes them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{domain}.backbone.safetensors"
    write_safetensors(file, backbone, metadata_of(backbone_name))
    write_heads(folder, domain, heads, classes)


def write_heads(
    folder: Path, domain: str, heads: Arrays, classes: Sequence[str] | None = None
) -> None:
    """`<domain>.safetensors`; the class order, where it is known, travels with it."""
    folder.mkdir(parents=True, exist_ok=True)
    as_float = {name: np.asarray(array, np.float32) for name, array in heads.items()}
    metadata = {} if classes is None else {"classes": json.dumps(list(classes))}
    write_safetensors(folder / f"{domain}.safetensors", as_float, metadata)


def weights_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names and values of a backbone's tensors."""
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(name.encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
