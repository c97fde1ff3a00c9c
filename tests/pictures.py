"""Small real image files for tests: coloured shapes, a class each, in several styles."""

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("bar", "disc", "frame")
STYLES = {"ink": ("white", "black"), "chalk": ("black", "white"), "clay": ("tan", "brown")}


def draw_class(root, style, count=12, size=48, seed=0):
    """`root/<class>/NN.png`: the shape jitters, ground and colour are the style's."""
    ground, colour = STYLES[style]
    rng = np.random.default_rng([seed, list(STYLES).index(style)])
    for name in CLASSES:
        (root / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            image = Image.new("RGB", (size, size), ground)
            pen = ImageDraw.Draw(image)
            left, top = rng.integers(4, 12, 2)
            right, bottom = size - rng.integers(4, 12, 2)
            box = (int(left), int(top), int(right), int(bottom))
            if name == "bar":
                pen.rectangle((box[0], size // 2 - 4, box[2], size // 2 + 4), fill=colour)
            elif name == "disc":
                pen.ellipse(box, fill=colour)
            else:
                pen.rectangle(box, outline=colour, width=5)
            image.save(root / name / f"{index:02d}.png")
    return root
