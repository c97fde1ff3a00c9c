"""From packages to images and lists: the steps in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ms_biaten.spec.errors import UserError, nearest
from torch_ref.emoji import iconify, lists
from torch_ref.emoji.classes import codepoint, common, identities
from torch_ref.emoji.fetch import fetch, read_json
from torch_ref.emoji.render import Task, render_all
from torch_ref.emoji.sets import CATALOGUE, SETS
from torch_ref.emoji.split import Halves, split


@dataclass(frozen=True)
class Built:
    members: dict[str, list[str]]  # class -> code points, the same in every domain
    halves: Halves
    drawn: int  # images that were not there yet


def build(root: Path, cache: Path, domains: Sequence[str], size: int, processes: int) -> Built:
    for domain in domains:
        if domain not in SETS:
            raise UserError(f"domain '{domain}' does not exist; {nearest(domain, SETS)}")
    catalogue = read_json(fetch(CATALOGUE, cache), "emoji.json")
    drawings = {domain: load_drawings(domain, cache) for domain in domains}
    members = common(identities(catalogue), *(set(found) for found in drawings.values()))
    tasks = [
        Task(
            f"{SETS[domain].package.tarball}, emoji {code}",
            iconify.to_svg(drawings[domain][code], size),
            root / lists.image_path(domain, name, code),
            size,
        )
        for domain in domains
        for name, codes in members.items()
        for code in codes
    ]
    drawn = render_all(tasks, processes)
    halves = split(members)
    for domain in domains:
        lists.write_list(root, domain, "source", halves.source)
        lists.write_list(root, domain, "target", halves.target)
    lists.write_classes(root, list(members))
    return Built(members, halves, drawn)


def load_drawings(domain: str, cache: Path) -> dict[str, iconify.Drawing]:
    """Code point -> drawing, of one set."""
    chosen = SETS[domain]
    named = SETS[chosen.named_like or domain]
    icons = read_json(fetch(chosen.package, cache), "icons.json")
    names = read_json(fetch(named.package, cache), "chars.json")
    found = {codepoint(code): iconify.find(icons, name) for code, name in names.items()}
    return {
        code: drawing
        for code, drawing in found.items()
        if drawing is not None and code not in chosen.misnamed
    }
