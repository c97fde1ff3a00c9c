"""Sides in processes of their own, in turns, compared by medians.

The threads of one framework would starve the other's in one process, and a machine is never equally
quick for long: a round runs every side once, and what is reported are medians over the rounds.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from ms_biaten.spec import provenance

ROOT = Path(__file__).resolve().parents[1]


def run_child(module, *arguments):
    """The JSON that `python -m module arguments` prints last."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def in_turns(rounds, sides, measure):
    """{side: [what `measure(side)` gave in each round]}."""
    made = {side: [] for side in sides}
    for turn in range(rounds):
        for side in sides:
            made[side].append(measure(side))
            print(f"round {turn + 1}, {side}: {made[side][-1]}", file=sys.stderr)
    return made


def medians(rows):
    """Of every number that all rows have."""
    keys = [key for key, value in rows[0].items() if isinstance(value, (int, float))]
    return {key: statistics.median(row[key] for row in rows) for key in keys}


def peak_memory_mb():
    """Of this process alone: what `getrusage` says begins with its parent's peak."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024)


def machine():
    return {
        "machine": platform.platform(),
        "processor": processor(),
        "python": platform.python_version(),
    }


def processor():
    return f"{os.cpu_count()} x {provenance.processor(Path('/proc/cpuinfo'))}"


def write(path, tree):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**machine(), **tree}, indent=1) + "\n")
