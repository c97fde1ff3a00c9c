"""Packages by name and version from the npm registry, checked against their pinned SHA-256."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from ms_biaten.spec.errors import UserError
from torch_ref.emoji.sets import Package

NPM_SECONDS = 600
MOST_UNPACKED = 1 << 30  # bytes; the largest of the packages has a tenth
REFETCH = "delete it, and it is downloaded again"


def fetch(package: Package, cache: Path) -> Path:
    """The package's tarball in the cache, downloaded where it is not there yet."""
    path = cache / package.tarball
    if path.exists():
        check_sha256(path, package.sha256, REFETCH)
        return path
    cache.mkdir(parents=True, exist_ok=True)
    # Beside its place, so that the rename stays within one file system.
    with tempfile.TemporaryDirectory(dir=cache, prefix=".npm-") as folder:
        fresh = Path(folder) / package.tarball
        npm_pack(package, fresh)
        check_sha256(fresh, package.sha256, "the registry serves another file: do not use it")
        fresh.replace(path)
    return path


def npm_pack(package: Package, destination: Path) -> None:
    specifier = f"{package.name}@{package.version}"
    by_hand = f"or put {package.tarball} into {destination.parent.parent} yourself"
    command = ["npm", "pack", specifier, "--ignore-scripts", "--loglevel=error"]
    command += ["--fetch-retries=1", "--pack-destination=."]  # the folder it runs in
    try:
        done = subprocess.run(
            command, cwd=destination.parent, capture_output=True, text=True, timeout=NPM_SECONDS
        )
    except FileNotFoundError:
        raise UserError(
            f"npm not found, which downloads {specifier}; install Node.js with npm, {by_hand}"
        ) from None
    except subprocess.TimeoutExpired:
        raise UserError(
            f"npm pack {specifier}: no answer within {NPM_SECONDS} s; "
            f"check the connection to the npm registry, {by_hand}"
        ) from None
    if done.returncode or not destination.exists():
        raise UserError(
            f"npm pack {specifier} failed ({npm_reason(done.stderr)}); "
            f"check the connection to the npm registry, {by_hand}"
        )


def npm_reason(stderr: str) -> str:
    """npm's error code and what follows it, without the prefix of its lines."""
    lines = [line.split(maxsplit=2) for line in stderr.splitlines() if line.startswith("npm ")]
    told = [words[2] for words in lines if words[1] in ("error", "ERR!") and len(words) == 3]
    return ": ".join(told[:2]) or "no reason given"


def check_sha256(path: Path, expected: str, remedy: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise UserError(
            f"{path}: its SHA-256 is {found[:12]}..., expected {expected[:12]}...; {remedy}"
        )


def read_json(tarball: Path, name: str) -> Any:
    """A file of the package, read from the archive itself: nothing is unpacked to the disk."""
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            size = 0
            for member in archive:
                refuse_escape(tarball, member)
                size += member.size
                if size > MOST_UNPACKED:
                    raise UserError(f"{tarball}: perhaps a decompression bomb; delete it")
            file = archive.extractfile(f"package/{name}")
            if file is None:
                raise KeyError(name)
            return json.load(file)
    except KeyError:
        raise UserError(f"{tarball}: expected package/{name} in it; {REFETCH}") from None
    except (tarfile.TarError, OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise UserError(f"{tarball}: cannot read {name} ({error}); {REFETCH}") from None


def refuse_escape(tarball: Path, member: tarfile.TarInfo) -> None:
    """An archive that reaches out of its folder is hostile, even where we would not follow."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or member.issym() or member.islnk():
        raise UserError(
            f"{tarball}: '{member.name}' leads out of the archive; do not use this file, delete it"
        )
