"""An image file to the array that a backbone sees, by Pillow and NumPy for both frameworks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # ImageNet's
STD = np.array([0.229, 0.224, 0.225], np.float32)
# By content, whatever the name says. Pillow knows more, some by help of other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
Image.init()  # registers them
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # told in our words
warnings.filterwarnings("ignore", category=UserWarning, module="PIL")  # so is what cannot be read


@dataclass(frozen=True)
class Transform:
    """Resized to a square, aspect ignored, then cropped: the SHOT family's transforms."""

    resize: int = 256
    crop: int = 224


class BadImageError(Exception):
    """A file that is no image, or not all of one."""


def read_image(path: Path) -> Image.Image:
    """RGB, upright; what is transparent becomes white."""
    try:
        with Image.open(path, formats=FORMATS) as file:
            # Before it is decoded. Pillow would warn, and warnings are no matter for threads.
            most = Image.MAX_IMAGE_PIXELS
            if most and file.width * file.height > most:
                size = f"{file.width} x {file.height}"
                raise BadImageError(f"{path}: {size} pixels, perhaps a decompression bomb")
            image = ImageOps.exif_transpose(file)
            if "A" in image.getbands() or "transparency" in image.info:
                image = image.convert("RGBA")
                white = Image.new("RGBA", image.size, "white")
                image = Image.alpha_composite(white, image)
            return image.convert("RGB")
    except BadImageError:
        raise
    except Exception as error:  # a damaged file raises whatever its bytes happen to mean
        raise BadImageError(f"{path}: {error or type(error).__name__}") from None


def center_pixels(image: Image.Image, transform: Transform) -> np.ndarray:
    """The test transform, before it is normalised: (crop, crop, 3) bytes."""
    margin = (transform.resize - transform.crop) // 2
    return _cut(image, transform, margin, margin)


def center_view(image: Image.Image, transform: Transform) -> np.ndarray:
    """The test transform: (3, crop, crop), normalised."""
    return normalised(center_pixels(image, transform))


def drawn_view(image: Image.Image, transform: Transform, rng: np.random.Generator) -> np.ndarray:
    """The train transform: a random crop, flipped half of the time."""
    left, top = rng.integers(0, transform.resize - transform.crop + 1, size=2)
    pixels = _cut(image, transform, int(left), int(top))
    return normalised(pixels[:, ::-1] if rng.random() < 0.5 else pixels)


def view_of(
    image: Image.Image, view: str, transform: Transform, seed: int, index: int
) -> np.ndarray:
    """A view by name; a drawn one depends on the seed and the sample alone, not on who decodes."""
    if view == "center":
        return center_view(image, transform)
    return drawn_view(image, transform, np.random.default_rng([seed, index]))


def normalised(pixels: np.ndarray) -> np.ndarray:
    """Bytes (..., H, W, 3) -> (..., 3, H, W) around 0, as backbones were trained."""
    values = (pixels.astype(np.float32) / 255 - MEAN) / STD
    return np.ascontiguousarray(np.moveaxis(values, -1, -3))


def _cut(image: Image.Image, transform: Transform, left: int, top: int) -> np.ndarray:
    square = image.resize((transform.resize, transform.resize), Image.Resampling.BILINEAR)
    square = square.crop((left, top, left + transform.crop, top + transform.crop))
    return np.asarray(square)
