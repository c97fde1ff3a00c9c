"""`python -m torch_ref.emoji --root DIR`: fetches, draws and lists the emoji benchmark's images."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from ms_biaten.spec.errors import RunError, UserError
from torch_ref.emoji.build import Built, build
from torch_ref.emoji.sets import DOMAINS, SETS
from torch_ref.emoji.sheet import save_sheet

PROGRAM = "python -m torch_ref.emoji"


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    domains = options.domains.split(",")
    cache = options.cache or options.root / "packages"
    start = time.perf_counter()
    try:
        built = build(options.root, cache, domains, options.size, options.processes)
    except UserError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    except (RunError, OSError) as error:  # a full disk, a folder that is a file
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{PROGRAM}: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    print(table(built, domains))
    images = len(domains) * sum(map(len, built.members.values()))
    seconds = time.perf_counter() - start
    print(f"{images} images in {options.root}, {built.drawn} of them new, {seconds:.0f} s")
    if options.sheet:
        save_sheet(options.sheet, options.root, domains, built.members, count=16)
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder of the images and lists")
    parser.add_argument(
        "--cache", type=Path, help="folder of the packages (default: ROOT/packages)"
    )
    parser.add_argument(
        "--size", type=positive, default=112, help="pixels of a side (default: 112)"
    )
    parser.add_argument(
        "--domains",
        default=",".join(DOMAINS),
        help=f"of {', '.join(SETS)} (default: {','.join(DOMAINS)})",
    )
    parser.add_argument("--processes", type=positive, default=os.cpu_count() or 1)
    parser.add_argument("--sheet", type=Path, metavar="PNG", help="also save a contact sheet")
    return parser


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got '{text}'")
    return int(text)


def table(built: Built, domains: list[str]) -> str:
    """Images per class and domain; every domain has the same emoji."""
    width = max(map(len, domains)) + 2
    head = "".join(f"{title:>{width}}" for title in [*domains, "source", "target"])
    rows = [f"{'class':<10}{head}"]
    for name, codes in built.members.items():
        halves = [len(built.halves.source[name]), len(built.halves.target[name])]
        counts = [len(codes)] * len(domains) + halves
        rows.append(f"{name:<10}" + "".join(f"{count:>{width}}" for count in counts))
    both = (built.halves.source, built.halves.target)
    totals = [sum(map(len, built.members.values()))] * len(domains)
    totals += [sum(map(len, half.values())) for half in both]
    rows.append(f"{'all':<10}" + "".join(f"{count:>{width}}" for count in totals))
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
