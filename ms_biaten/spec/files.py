"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def write_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only after everything reached the disk."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        open_up(Path(temporary))  # mkstemp's 0600 would lock colleagues out
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the rename itself must survive a power cut
    finally:
        os.close(directory)


def seen_from(base: Path, place: Path) -> str:
    """A path relative to a folder, so that both can move together; links are followed first."""
    return Path(os.path.relpath(place.resolve(), base.resolve())).as_posix()


def open_up(path: Path) -> None:
    """The rights of an ordinary new file."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)
