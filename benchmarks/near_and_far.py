"""DomainNet's size while the two cores are near each other, and while they are far.

    python -m benchmarks.near_and_far

Sides run in turns, each in a process of its own; before and after it is measured how far apart the
cores are (`benchmarks.cores_apart`), and what changed in between does not count. It ends when each
side has `--rounds` of both kinds, or after `--minutes`: where a host puts the cores of a virtual
machine is not ours to say. Rounds of other processors stay in the record, and with `--go-on` those
of this one, too.
"""

import argparse
import json
import sys
import time
from collections import Counter

from benchmarks.cores_apart import distance
from benchmarks.measuring import ROOT, processor, run_child, write

RECORD = ROOT / "benchmarks/results/near_and_far.json"
SIDES = ("mindspore", "torch_ref", "authors")
APART = ("near", "far")
MEASURED = {  # arguments of `benchmarks.sides`; the released code has no ATEN
    ("step", "bi_aten"): (512, SIDES),
    ("step", "aten"): (512, SIDES[:2]),
    ("labels", "bi_aten"): (4096, SIDES),
    ("epoch", "bi_aten"): (4096, SIDES),
}
PAUSE = 10  # seconds, where all that can be measured now was


def plan():
    for (task, method), (samples, sides) in MEASURED.items():
        for side in sides:
            yield task, method, side, samples


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.near_and_far", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--go-on", action="store_true")
    options = parser.parse_args()
    known = json.loads(RECORD.read_text())["rounds"] if RECORD.exists() else []
    others = [row for row in known if row["processor"] != processor()]
    rows = [row for row in known if row["processor"] == processor()] if options.go_on else []
    end = time.monotonic() + 60 * options.minutes
    wanted = options.rounds * len(APART) * len(list(plan()))
    while len(rows) < wanted and time.monotonic() < end:
        before = len(rows)
        for task in plan():
            rows += measured(task, rows, options.rounds)
            write(RECORD, {"rounds": others + rows})
        if len(rows) == before:
            time.sleep(PAUSE)
    if len(rows) < wanted:
        print(f"{len(rows)} of {wanted} rounds: the cores stayed where they were", file=sys.stderr)


def measured(task, rows, rounds):
    """One round, unless there are enough of this kind, or the cores moved meanwhile."""
    name, method, side, samples = task
    apart = distance()
    row = {"processor": processor(), "task": name, "method": method, "side": side, "cores": apart}
    if Counter(tuple(r[key] for key in row) for r in rows)[tuple(row.values())] >= rounds:
        return []
    found = run_child("benchmarks.sides", side, name, "domainnet", method, samples)
    row["samples_per_second"] = found["samples_per_second"]
    if "gemm_share" in found:
        row["gemm_share"] = found["gemm_share"]
    print(row, file=sys.stderr)
    return [row] if distance() == apart else []


if __name__ == "__main__":
    main()
