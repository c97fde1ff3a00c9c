"""The command `compare`: two runs, perhaps of two machines, as one table and a verdict."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ms_biaten.spec import console
from ms_biaten.spec.comparison import Comparison, Pair, compare
from ms_biaten.spec.errors import RunError, UserError

WIDTH = 36  # of a value in the table; JSON has it whole


def add_to(table: Any) -> None:
    parser = table.add_parser("compare", help="do two runs have the same numbers?")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("other", type=Path, metavar="OTHER")
    add_tolerance(parser, "0: to the last bit")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.set_defaults(command=compare_command)


def add_tolerance(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="T",
        help=f"largest difference of numbers that count as the same (default {default})",
    )


def compare_command(options: argparse.Namespace, backend: str, program: str) -> None:
    tolerance = checked(options.tolerance) or 0.0
    found = compare(options.run, options.other)
    if options.json:
        print(json.dumps(found.as_json(tolerance), indent=1))
    else:
        console.say(table_of(found, tolerance))
    judge(found, tolerance)


def checked(tolerance: float | None) -> float | None:
    if tolerance is not None and not 0 <= tolerance < float("inf"):
        raise UserError(f"--tolerance: expected 0 or more, found {tolerance}")
    return tolerance


def judge(found: Comparison, tolerance: float) -> None:
    """Exit code 1 where the runs differ by more than they may."""
    if not found.within(tolerance):
        raise RunError(f"{found.runs[0]} and {found.runs[1]} differ{reason(found)}")


def reason(found: Comparison) -> str:
    if found.unlike:
        return f": {found.unlike[0]}"
    if found.first:
        one, other = found.first["values"]
        return f", first in {found.first['line']}, {found.first['term']}: {one} and {other}"
    return f": {found.moved} samples get another class" if found.moved else " in their weights"


# -- the table ------------------------------------------------------------------------------------


def table_of(found: Comparison, tolerance: float) -> str:
    rows: list[tuple[str, ...]] = [("", *found.runs)]
    rows += section("settings", found.settings)
    rows += section("versions", found.versions)
    rows += section("code and machine", found.machine)
    rows += section("data (SHA-256)", found.data)
    if any(value is not None for value in found.accuracy):
        rows.append(("accuracy", *(shown(value) for value in found.accuracy)))
    names, columns = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    text = [f"{name:{names}}  {one:{columns}}  {other}".rstrip() for name, one, other in rows]
    return "\n".join([*text, "", *judged(found), "", f"verdict: {found.verdict(tolerance)}"])


def section(title: str, pairs: Mapping[str, Pair] | None) -> list[tuple[str, str, str]]:
    if pairs is None:
        return [(title, "not compared: no config.yaml", "")]
    if not pairs:
        return [(title, "the same", "")]
    return [(title, "", ""), *((f"  {k}", shown(a), shown(b)) for k, (a, b) in pairs.items())]


def shown(value: Any) -> str:
    if value is None:
        return "-"
    text = f"{value:.4f}" if isinstance(value, float) and abs(value) > 1 else str(value)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def judged(found: Comparison) -> list[str]:
    """The numbers that decide."""
    rows = list(found.unlike)
    if found.first:
        one, other = found.first["values"]
        place = f"{found.first['line']}, {found.first['term']}"
        rows.append(f"first difference: {place}: {one} and {other}")
    apart = {f"lines: {term}": value for term, value in found.terms.items() if value}
    apart |= {group: value for group, value in (found.weights or {}).items() if value}
    width = max(map(len, apart), default=0)
    rows += ["largest differences:"] if apart else ["all numbers of all lines are equal"]
    rows += [f"  {name:{width}}  {value:.3g}" for name, value in apart.items()]
    if found.weights is not None and not any(found.weights.values()):
        rows.append(f"all weights are equal ({', '.join(found.weights)})")
    for what, equal in found.digests.items():
        rows.append(f"{what}: {'the same' if equal else 'another'} SHA-256")
    if found.predictions:
        rows.append(
            f"predictions: {found.moved} of "
            f"{found.predictions['samples']:.0f} samples get another class; confidences and "
            f"weights differ by at most {found.predictions['largest']:.3g}"
        )
    return rows
