"""Damaged image files, and files that claim to be images."""

import io
import struct
import zlib

import numpy as np
from PIL import Image, PngImagePlugin

from benchmarks.fuzz.mutators import damaged

SIDE = 24
WAYS = {"PNG": {}, "JPEG": {}, "BMP": {}, "TIFF": {"compression": "tiff_lzw"}, "WEBP": {}}
WAYS |= {"PPM": {}, "GIF": {}}
EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"


def picture(rng, mode="RGB"):
    depth = {"RGB": 3, "RGBA": 4, "L": 1, "CMYK": 4}[mode]
    pixels = np.frombuffer(rng.randbytes(SIDE * SIDE * depth), np.uint8).reshape(SIDE, SIDE, depth)
    return Image.fromarray(pixels[..., 0] if depth == 1 else pixels, mode)


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **{**WAYS.get(kind, {}), **options})
    return buffer.getvalue()


def damaged_image(rng, content):
    """`content` is a PNG; other kinds are made on the way."""
    chance = rng.random()
    if chance < 0.2:
        return rng.choice(HOSTILE)()
    if chance < 0.35:
        return damaged_chunks(rng, content)
    kind = rng.choice(list(WAYS))
    mode = rng.choice(("RGB", "RGBA", "L", "CMYK"))
    image = picture(rng, mode)
    if kind not in ("TIFF", "JPEG" if mode == "CMYK" else "TIFF") and mode != "L":
        image = image.convert("RGB")
    if kind == "JPEG" and image.mode == "RGBA":
        image = image.convert("RGB")
    options = {"exif": EXIF + rng.randbytes(20)} if rng.random() < 0.3 and kind != "BMP" else {}
    if kind in ("PPM", "GIF", "TIFF"):
        options = {}
    if kind in ("GIF", "WEBP") and rng.random() < 0.3:
        image = image.convert("RGB")
        options |= {"save_all": True, "append_images": [picture(rng)] * 3}
    return damaged(rng, encoded(image, kind, **options))


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def chunks_of(content):
    at, found = 8, []
    while at + 8 <= len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        found.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def damaged_chunks(rng, content):
    """A PNG whose checksums are right again: the damage reaches the decoder."""
    parts = chunks_of(content)
    place = rng.randrange(len(parts))
    name, body = parts[place]
    extra = rng.choice((b"eXIf", b"iCCP", b"zTXt", b"tRNS", b"PLTE", b"gAMA", b"acTL", b"iTXt"))
    change = rng.choice(("damage", "extra", "swap", "drop", "twice"))
    if change == "damage":
        parts[place] = name, damaged(rng, body)
    elif change == "extra":
        parts.insert(1, (extra, rng.randbytes(rng.choice((0, 1, 20, 3000)))))
    elif change == "swap":
        rng.shuffle(parts)
    elif change == "drop":
        del parts[place]
    else:
        parts.insert(place, parts[place])
    return content[:8] + b"".join(chunk(*part) for part in parts)


def png(width, height, depth=8, colour=2, rows=b"", before=()):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [(b"IHDR", header), *before, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


ZEROS = zlib.compress(b"\0" * (64 << 20), 9)  # 64 MB in 64 kB


def bomb_in_text():
    return png(1, 1, rows=b"\0" * 4, before=[(b"zTXt", b"a\0\0" + ZEROS)])


def bomb_in_profile():
    return png(1, 1, rows=b"\0" * 4, before=[(b"iCCP", b"a\0\0" + ZEROS)])


def bomb_many_texts():
    return png(1, 1, rows=b"\0" * 4, before=[(b"zTXt", b"a%d\0\0" % i + ZEROS) for i in range(40)])


def large_claim():
    return png(60_000, 60_000, rows=b"\0" * 100)


def largest_claim():
    return png(2**31 - 1, 2**31 - 1, rows=b"\0" * 100)


def just_allowed():
    """As many pixels as are allowed, and none of them there."""
    return png(9_000, 9_000, rows=b"\0" * 100)


def no_pixels():
    return png(1, 0)


def jpeg_claims():
    content = bytearray(encoded(Image.new("RGB", (8, 8)), "JPEG"))
    at = content.index(b"\xff\xc0") + 5
    content[at : at + 4] = b"\xff\xdc\xff\xdc"
    return bytes(content)


def bmp_claims():
    content = bytearray(encoded(Image.new("RGB", (8, 8)), "BMP"))
    content[18:26] = struct.pack("<ii", 2**31 - 1, -(2**31))
    return bytes(content)


def ppm_claims():
    return b"P6 999999999 999999999 255\n" + b"x" * 100


def postscript():
    """Pillow would start another program for it."""
    return (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(executed) (w) file\n"
    )


def long_text():
    note = PngImagePlugin.PngInfo()
    note.add_text("a", "x" * 900_000, zip=True)
    return encoded(Image.new("RGB", (2, 2)), "PNG", pnginfo=note)


def tiff_loop():
    """A directory whose next one is itself."""
    content = encoded(Image.new("RGB", (8, 8)), "TIFF")
    return content[:4] + struct.pack("<I", 8) + content[8:-4] + struct.pack("<I", 8)


HOSTILE = (
    *(bomb_in_text, bomb_in_profile, bomb_many_texts, large_claim, largest_claim, just_allowed),
    *(no_pixels, jpeg_claims, bmp_claims, ppm_claims, postscript, long_text, tiff_loop),
    lambda: b"",
    lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    lambda: b"#define im_width 99999\n#define im_height 99999\nstatic char im_bits[] = {\n",
)
