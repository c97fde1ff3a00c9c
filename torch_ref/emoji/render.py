"""SVG to PNG on white, in several processes; what is there already is not drawn again."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.files import write_atomically

CHUNK = 16  # drawings a process takes at a time


@dataclass(frozen=True)
class Task:
    origin: str  # the package and the icon's name, for errors
    svg: str
    path: Path
    size: int

    @property
    def fingerprint(self) -> str:
        """Stands in the PNG: a file of another version, size or drawing is drawn again."""
        return hashlib.sha256(self.svg.encode()).hexdigest()


def render_all(tasks: Sequence[Task], processes: int) -> int:
    """Draws what is missing or not good; returns how many it drew."""
    for folder in {task.path.parent for task in tasks}:
        folder.mkdir(parents=True, exist_ok=True)
    missing = [task for task in tasks if not is_good(task)]
    with tqdm(total=len(missing), desc="drawing", unit="emoji", disable=not missing) as bar:
        for _ in map(render, missing) if processes == 1 else in_parallel(missing, processes):
            bar.update()
    return len(missing)


def in_parallel(tasks: Sequence[Task], processes: int) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")  # a forked copy of a caller's threads can hang
    try:
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            yield from pool.map(render, tasks, chunksize=CHUNK)
    except BrokenProcessPool:
        raise RunError("a drawing process was killed; run again, with fewer --processes") from None


def is_good(task: Task) -> bool:
    from PIL import Image

    try:
        with Image.open(task.path) as image:
            image.load()
            return image.info.get("svg") == task.fingerprint
    except (OSError, SyntaxError):  # Pillow's words for no file, not a PNG, a broken one
        return False


def render(task: Task) -> None:
    from PIL import Image, PngImagePlugin

    image = Image.open(io.BytesIO(rasterise(task))).convert("RGB")
    if image.getcolors(1):  # no more than one colour
        raise UserError(f"{task.origin}: its SVG draws nothing; leave it out in classes.py")
    note = PngImagePlugin.PngInfo()
    note.add_text("svg", task.fingerprint)
    with write_atomically(task.path) as file:
        image.save(file, "PNG", optimize=True, pnginfo=note)


def rasterise(task: Task) -> bytes:
    try:
        import resvg_py
    except ImportError:
        raise UserError(
            "resvg_py is not installed, which draws the emoji; pip install 'ms_biaten[emoji]'"
        ) from None
    try:
        # System fonts would let the same SVG look different elsewhere; emoji carry no text.
        return bytes(
            resvg_py.svg_to_bytes(
                svg_string=task.svg,
                width=task.size,
                height=task.size,
                background="#ffffff",
                skip_system_fonts=True,
            )
        )
    except ValueError as error:
        raise UserError(
            f"{task.origin}: not an SVG that can be drawn ({error}); leave it out in classes.py"
        ) from None
