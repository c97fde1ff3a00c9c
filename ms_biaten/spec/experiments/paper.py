"""The paper's own numbers, always shown as cited and never compared with ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ms_biaten.spec.experiments.layout import NONE
from ms_biaten.spec.reading import read_yaml


@cache
def paper() -> dict[str, Any]:
    return read_yaml(Path(__file__).with_name("paper.yaml"))


def cited_rows(
    table: str, benchmark: str, targets: Sequence[str], more: Sequence[str] = ()
) -> list[list[str]]:
    """Rows of a table of the paper on this benchmark, in our columns; `more` follow the mean."""
    section = paper()[table].get(benchmark)
    if section is None:
        return []
    rows = []
    for row in section["rows"]:
        known = dict(zip(section["targets"], row["values"], strict=True))
        values = [f"{known[target]:.1f}" if target in known else NONE for target in targets]
        # A printed mean is over the paper's targets: it says nothing of another choice of them.
        mean = f"{row['mean']:.1f}" if set(targets) == set(known) else NONE
        rows.append([_title(row, section), *values, mean, *(row.get(key, NONE) for key in more)])
    return rows


def _title(row: dict[str, Any], section: dict[str, Any]) -> str:
    trained = "" if row.get("source_free", True) else ", with source data"
    return f"{row['method']}, paper (cited; {row.get('backbone') or section['backbone']}{trained})"
