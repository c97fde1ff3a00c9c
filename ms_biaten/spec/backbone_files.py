"""What a backbone's file says of itself: docs/bank.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ms_biaten.spec.errors import UserError

FORMAT = "ms_biaten.backbone"


def metadata_of(name: str) -> dict[str, str]:
    return {"format": FORMAT, "model": name}


def check_model_name(path: Path, metadata: Mapping[str, str], name: str) -> None:
    """Files of ours say what they are; a tag after the dot only names a set of weights."""
    stored = metadata.get("model", name)
    if stored.split(".")[0] != name.split(".")[0]:
        raise UserError(f"{path}: holds {stored}, asked for as {name}; ask for {stored}")
