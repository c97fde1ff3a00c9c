"""States on disk, in pairs: each carries a digest of its content, and the one before it stays."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import link_atomically, write_atomically
from ms_biaten.spec.weights import Arrays, read_safetensors

DIGEST = "sha256"


class DamagedError(UserError):
    """A state that is not as it was written."""


def digest_of(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    """SHA-256 of names, kinds, shapes, numbers and all that is said of them."""
    total = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name, array in sorted(arrays.items()):
        total.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def write_state(path: Path, before: Path, arrays: Arrays, metadata: dict[str, str]) -> None:
    """The new state beside the old, then the old by its second name, then the new by its own."""
    laid_out = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    whole = {**metadata, DIGEST: digest_of(laid_out, metadata)}
    with write_atomically(path) as file:
        file.write(save(laid_out, metadata=whole))
        file.flush()
        os.fsync(file.fileno())  # the old pair is not touched before there is a third state
        if path.is_file():
            link_atomically(path, before)


def read_state(path: Path) -> tuple[Arrays, dict[str, str]]:
    """Its arrays and what is said of them; one without a digest is an older release's."""
    try:
        arrays, metadata = read_safetensors(path)
    except UserError as error:
        raise DamagedError(f"{path}: not a readable checkpoint ({error})") from None
    expected = metadata.pop(DIGEST, None)
    if expected is not None and expected != digest_of(arrays, metadata):
        raise DamagedError(f"{path}: not a readable checkpoint (its content is not as written)")
    return arrays, metadata
