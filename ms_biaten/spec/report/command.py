"""The command `report`: a run's folder -> report.html and figures/."""

from __future__ import annotations

import argparse
from pathlib import Path

from ms_biaten.spec import console
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import write_atomically


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the page (default: RUN/report.html)"
    )
    parser.add_argument(
        "--images", type=Path, metavar="ROOT", help="where the sample names lead to image files"
    )
    parser.add_argument(
        "--sweep",
        type=Path,
        metavar="FILE",
        help="JSON lines of lambda_intra, gamma, accuracy (default: RUN/sweep.jsonl, if there)",
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="also write the scalars to RUN/tensorboard, for TensorBoard",
    )


def report_command(options: argparse.Namespace, backend: str, program: str) -> None:
    if options.images and not options.images.is_dir():
        raise UserError(f"--images {options.images}: no such folder")
    page = write_report(
        options.run, program, options.output, options.images, options.sweep, figures=True
    )
    console.say(f"report: {page}")
    if options.tensorboard:
        from ms_biaten.spec.report.tensorboard import write_scalars

        console.say(f"tensorboard --logdir {write_scalars(options.run)}")


def write_report(
    run: Path,
    program: str,
    output: Path | None = None,
    images: Path | None = None,
    sweep: Path | None = None,
    figures: bool = False,
) -> Path:
    """The page; with `figures` also each of them beside it, as PNG and PDF for papers."""
    # Matplotlib is slow to import: only who writes a report waits for it.
    from ms_biaten.spec.report import drawing
    from ms_biaten.spec.report.page import render
    from ms_biaten.spec.report.sections import all_sections
    from ms_biaten.spec.report.story import read_story
    from ms_biaten.spec.report.sweep import read_sweep

    story = read_story(run, program)
    record = sweep or run / "sweep.jsonl"
    found = read_sweep(record, story.history.config) if sweep or record.is_file() else None
    page = output or run / "report.html"
    if page.is_dir() or not page.parent.is_dir():
        raise UserError(f"--output {page}: expected a file in a folder that exists")
    with drawing.style():
        sections = all_sections(story, found, images)
        for section in sections:
            if section.figure:
                drawing.settle(section.figure)
        files = {page: render(story, sections).encode()}
        for name, figure in ((s.name, s.figure) for s in sections if s.figure):
            for kind in ("png", "pdf") if figures else ():
                files[page.parent / "figures" / f"{name}.{kind}"] = drawing.save(figure, kind)
    try:
        for path, content in files.items():
            if path != page:
                path.parent.mkdir(exist_ok=True)
            with write_atomically(path) as file:
                file.write(content)
    except OSError as error:
        raise UserError(f"report {page}: cannot be written ({error.strerror})") from None
    return page
