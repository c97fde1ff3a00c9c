"""The command `predict`: images through an adapted model, to a table and to JSON lines."""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ms_biaten.spec import console
from ms_biaten.spec.adapted import Adapted, open_run
from ms_biaten.spec.cells import as_cell
from ms_biaten.spec.decoding import decoded, in_batches
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.extracting import check_finite
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.image_options import add_feeding_options, place_of
from ms_biaten.spec.images import BadImageError, center_view, read_image
from ms_biaten.spec.lists import scan_folder
from ms_biaten.spec.stopping import code_of

ENDINGS = (".csv", ".jsonl")


def images_of(places: list[str]) -> list[Path]:
    """Files as they are named, folders with all images below them; each once."""
    found: list[Path] = []
    for text in places:
        place = Path(text)
        if place.is_dir():
            listed = scan_folder(place)
            found += [listed.path(row) for row in range(len(listed))]
        elif place.is_file():
            found.append(place)
        else:
            raise UserError(f"{place}: no such image or folder")
    return list(dict.fromkeys(found))


def predictions(
    adapted: Adapted, see: Any, paths: list[Path], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """One record an image, in order; unreadable ones are told and left out, or end it."""
    transform = adapted.described.transform

    def read(row: int) -> np.ndarray | str:
        try:
            return center_view(read_image(paths[row]), transform)
        except BadImageError as error:
            return str(error)

    batches = in_batches(0, len(paths), options.batch)
    with tqdm(total=len(paths), unit="image", disable=None) as bar:
        first = 0
        for items in decoded(batches, read, options.workers):
            rows = [first + i for i, item in enumerate(items) if not isinstance(item, str)]
            for item in items:
                if isinstance(item, str):
                    if not options.skip_bad:
                        raise UserError(f"{item}; leave such files out with --skip-bad")
                    console.say(f"left out {item}")
            if rows:
                raw = see(np.stack([item for item in items if not isinstance(item, str)]))
                check_finite(raw)
                made = adapted.predict(raw)
                for i, row in enumerate(rows):
                    yield record(adapted, paths[row], *(part[i] for part in made))
            first += len(items)
            bar.update(len(items))


def record(
    adapted: Adapted, path: Path, p: np.ndarray, beta: np.ndarray, alpha: np.ndarray
) -> dict[str, Any]:
    """`source` has the most weight, `classifier` the most say about that source's features."""
    domains, classes = adapted.described.domains, adapted.described.classes
    source = int(beta.argmax())
    return {
        "image": path.as_posix(),
        "class": classes[int(p.argmax())],
        "confidence": round(float(p.max()), 6),
        "source": domains[source],
        "classifier": domains[int(alpha[source].argmax())],
        "weights": {d: round(float(w), 6) for d, w in zip(domains, beta, strict=True)},
        "classifiers": {d: domains[int(alpha[i].argmax())] for i, d in enumerate(domains)},
        "probabilities": {c: round(float(v), 6) for c, v in zip(classes, p, strict=True)},
    }


def csv_line(cells: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(map(as_cell, cells))
    return text.getvalue().encode("utf-8", "surrogateescape")  # file names are any bytes


def write(records: Iterator[dict[str, Any]], base: Path, domains: tuple[str, ...]) -> int:
    """Both files grow while images are seen, and appear whole; how many images there were."""
    count = 0
    columns = ["image", "class", "confidence", "source", "classifier"]
    with ExitStack() as stack:
        table, lines = (
            stack.enter_context(write_atomically(base.with_name(base.name + ending)))
            for ending in ENDINGS
        )
        table.write(csv_line([*columns, *(f"weight_{domain}" for domain in domains)]))
        for entry in records:
            count += 1
            weights = [f"{weight:.6f}" for weight in entry["weights"].values()]
            cells = [f"{entry[c]:.6f}" if c == "confidence" else entry[c] for c in columns]
            table.write(csv_line([*cells, *weights]))
            lines.write((json.dumps(entry) + "\n").encode())
        if not count:
            raise UserError("not one of the images could be read")
    return count


# -- command ----------------------------------------------------------------------------------


def add_to(table: Any) -> None:
    parser = table.add_parser("predict", help="classify images with the model of a run")
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run")
    parser.add_argument("images", metavar="IMAGES", nargs="+", help="image files, or folders")
    add_model_place(parser)
    add_feeding_options(parser)
    parser.add_argument("--skip-bad", action="store_true", help="leave unreadable images out")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("predictions"),
        metavar="NAME",
        help="writes NAME.csv and NAME.jsonl (default: predictions)",
    )
    parser.set_defaults(command=predict_command)


def add_model_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models",
        default="",
        metavar="FOLDER",
        help="of the sources' backbones (default: where the bank found them)",
    )


def predict_command(options: argparse.Namespace, backend: str, program: str) -> None:
    place = place_of(options)
    if not options.output.name or options.output.is_dir():
        raise UserError(
            f"--output {options.output}: a folder; expected the beginning of two file names, for "
            "example out/predictions"
        )
    for ending in ENDINGS:
        if options.output.with_name(options.output.name + ending).exists():
            raise UserError(
                f"{options.output}{ending} is there already; remove it or pass another --output"
            )
    if not options.output.parent.is_dir():
        raise UserError(f"--output {options.output}: no folder {options.output.parent}")
    paths = images_of(options.images)
    framework = importlib.import_module(backend)
    framework.prepare(place)
    adapted = open_run(options.run, framework, place, True, options.models)
    see = framework.Extractor(adapted.backbones, adapted.config)
    started = time.monotonic()
    domains = adapted.described.domains
    try:
        count = write(predictions(adapted, see, paths, options), options.output, domains)
    except KeyboardInterrupt as stop:
        console.say("stopped; nothing was written")
        sys.exit(code_of(stop))  # not the general message: the same command begins anew
    seconds = time.monotonic() - started
    console.say(
        f"{count} images in {seconds:.1f} s ({count / seconds:.1f} a second, decoding included); "
        f"{options.output}.csv, {options.output}.jsonl"
    )
