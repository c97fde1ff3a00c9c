"""Files appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

UNFINISHED = ".writing"  # how the name of a temporary ends
BLOCK = 1 << 20


@contextmanager
def write_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only after everything reached the disk."""
    with writing(path) as temporary:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    sync_folder(path.parent)  # the rename itself must survive a power cut


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """An empty temporary beside a file, gone in the end; errors name the file, not it."""
    temporary = None
    try:
        descriptor, name = tempfile.mkstemp(UNFINISHED, f".{path.name}.", path.parent)
        os.close(descriptor)
        temporary = Path(name)
        open_up(temporary)  # mkstemp's 0600 would lock colleagues out
        yield temporary
    except OSError as error:
        if error.filename is None or UNFINISHED in str(error.filename):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise
    finally:
        if temporary:
            with contextlib.suppress(OSError):  # what went wrong is told already
                temporary.unlink(missing_ok=True)


def link_atomically(existing: Path, path: Path) -> None:
    """A second name for a file's content, in the place of whatever has that name."""
    with writing(path) as temporary:
        temporary.unlink()
        try:
            os.link(existing, temporary)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise
            shutil.copyfile(existing, temporary)  # a file system without hard links
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
    sync_folder(path.parent)


def remove_unfinished(folder: Path, *names: str) -> None:
    """Temporaries of these files that a kill left; for whoever alone may write them."""
    for name in names:
        for path in folder.glob(f".{glob.escape(name)}.*{UNFINISHED}"):
            path.unlink(missing_ok=True)


def reserve(path: Path) -> None:
    """Room for a file that has holes, now: a full disk is an error before the work, not amid it."""
    with path.open("rb+") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except (AttributeError, OSError) as error:
            unable = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
            if isinstance(error, OSError) and error.errno not in unable:
                raise
            for start in range(0, size, BLOCK):
                os.pwrite(file.fileno(), os.pread(file.fileno(), BLOCK, start), start)
            os.fsync(file.fileno())


def write_at(file: IO[bytes], start: int, content: bytes) -> None:
    """Past no buffer: what does not fit on the disk is an error here and now."""
    while content:
        try:
            written = os.pwrite(file.fileno(), content, start)
        except OSError as error:
            raise OSError(error.errno, error.strerror, file.name) from None
        start, content = start + written, content[written:]


def sync_folder(folder: Path) -> None:
    """The names in a folder to the disk."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def what_failed(error: OSError) -> str:
    """'runs/a/results.jsonl: No space left on device'."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}"


def seen_from(base: Path, place: Path) -> str:
    """A path relative to a folder, so that both can move together; links are followed first."""
    return Path(os.path.relpath(place.resolve(), base.resolve())).as_posix()


def open_up(path: Path) -> None:
    """The rights of an ordinary new file."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)
