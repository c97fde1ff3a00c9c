"""Small pictures of samples, inside the page."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from ms_biaten.spec.images import BadImageError, read_image

SIDE = 64  # pixels on the page; the picture has twice as many for sharp screens


def thumbnail(sample: str, root: Path | None) -> str | None:
    """The image file as a data URI, or None where there is none to be read."""
    path = Path(sample) if root is None else root / sample
    try:
        if not path.is_file():
            return None
        image = read_image(path)
    except (BadImageError, OSError, ValueError):  # ValueError: a name no file can have
        return None
    image.thumbnail((2 * SIDE, 2 * SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
