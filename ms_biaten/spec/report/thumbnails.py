"""Small pictures of samples, inside the page."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.images import BadImageError, read_image
from ms_biaten.spec.lists import inside, is_file

SIDE = 64  # pixels on the page; the picture has twice as many for sharp screens


def thumbnail(sample: str, root: Path | None) -> str | None:
    """The image file as a data URI, or None where there is none to be read.

    A name that leads out of the root shows nothing: pages are passed on.
    """
    try:
        path = inside(sample, root or Path(), "")
        if not is_file(path):
            return None
        image = read_image(path)
    except (BadImageError, UserError):
        return None
    image.thumbnail((2 * SIDE, 2 * SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
