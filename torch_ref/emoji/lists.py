"""List files: which image has which label, and which half it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ms_biaten.spec.files import write_atomically


def image_path(domain: str, name: str, code: str) -> str:
    return f"{domain}/{name}/{code}.png"


def write_list(root: Path, domain: str, half: str, members: Mapping[str, Sequence[str]]) -> None:
    """lists/<domain>_<half>.txt with lines `path label`, sorted; paths are relative to the root."""
    lines = [
        f"{image_path(domain, name, code)} {label}\n"
        for label, (name, codes) in enumerate(members.items())
        for code in codes
    ]
    write_lines(root / "lists" / f"{domain}_{half}.txt", sorted(lines))


def write_classes(root: Path, names: Sequence[str]) -> None:
    """lists/classes.txt: line n is the name of label n."""
    write_lines(root / "lists" / "classes.txt", [f"{name}\n" for name in names])


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as file:
        file.write("".join(lines).encode())
