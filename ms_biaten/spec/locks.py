"""One process at a time in a folder: the second is told who is there.

The kernel holds the lock and lets go of it when the process ends, however it ends: what is left on
disk after a kill locks nobody out.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import time
from pathlib import Path

from ms_biaten.spec.errors import UserError

# A file system that knows no locks, some of clusters: there, nothing is refused.
UNABLE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Lock:
    """Held from its making to `release`, or to the end of a `with`."""

    def __init__(self, file: Path, place: Path):
        """`file` is the lock's own, hidden; `place` is what messages speak of."""
        self.file, self._descriptor = file, -1
        while not self._taken(place):
            """Whoever had it removed the file that we opened: there may be a new one."""

    def _taken(self, place: Path) -> bool:
        descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise UserError(
                f"{place}: in use by {holder}; wait for it, stop it, or name another folder"
            ) from None
        except OSError as error:
            if error.errno not in UNABLE:
                os.close(descriptor)
                raise
        if not self._is_there(descriptor):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        with contextlib.suppress(OSError):  # on a full disk the lock holds, but cannot say whose
            os.ftruncate(descriptor, 0)
            told = f"process {os.getpid()} on {platform.node()} since {since}"
            os.pwrite(descriptor, told.encode(), 0)
        return True

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self.file.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Its file goes first: what another process opens afterwards is a new one."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # a folder that is gone, or was made read-only
                self.file.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def beside(path: Path) -> Lock:
    """The lock of a file or folder that is itself renamed or replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return Lock(path.with_name(f".{path.name}.lock"), path)
