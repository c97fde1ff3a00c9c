"""`python -m benchmarks.fuzz --cases 1000`: damaged files through every loader, watched.

Prints a table, writes benchmarks/results/fuzz.json, and keeps the file of every case that was
neither accepted nor refused in one clear line.
"""

import argparse
import json
import select
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.fuzz.loaders import LOADERS
from benchmarks.measuring import ROOT, write

SECONDS = 30  # a case that takes longer hangs
STARTING = 300  # to import the frameworks and make the sound files
FAILURES = ("traceback", "hang", "crash", "memory", "executed")
MOST_GROWN = 2048  # MB


def cases_of(name, seed, cases, folder):
    """The verdicts of one loader; a worker that hangs or dies is started again behind its case."""
    first, verdicts = 0, []
    while first < cases:
        for verdict in worker_cases(name, seed, first, cases, folder):
            verdicts.append(verdict)
            first = verdict["case"] + 1
    return verdicts


def worker_cases(name, seed, first, cases, folder):
    module = [sys.executable, "-m", "benchmarks.fuzz.worker"]
    command = [*module, name, str(seed), str(first), str(cases), str(folder / name)]
    worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        if "ready" not in (next_line(worker, STARTING) or ""):
            sys.exit(f"{name}: its worker does not start, see {folder / name}.log")
        for number in range(first, cases):
            line = next_line(worker, SECONDS)
            if not line:
                keep(LOADERS[name], folder, number)
                yield {"case": number, "verdict": "hang" if line is None else "crash", "why": ""}
                return
            verdict = json.loads(line)
            if verdict["grown_mb"] > MOST_GROWN:
                verdict["verdict"] = "memory"
            yield verdict
    finally:
        worker.kill()
        worker.wait()


def keep(loader, folder, number):
    """The files of the case that a worker did not come back from."""
    for path in loader.damage:
        whole = folder / loader.name / "files" / path
        place = folder / "failures" / f"{loader.name}-{number}-{whole.name}"
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(whole, place)


def next_line(worker, seconds):
    """What the worker says next; '' where it died, None where it says nothing."""
    ready, _, _ = select.select([worker.stdout], [], [], seconds)
    return worker.stdout.readline() if ready else None


def summary(verdicts):
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    return {
        "cases": len(verdicts),
        **{kind: counts[kind] for kind in ("accepted", "refused", *FAILURES)},
        "most_memory_mb": max(verdict.get("grown_mb", 0) for verdict in verdicts),
        "slowest_cpu_s": max(verdict.get("seconds", SECONDS) for verdict in verdicts),
    }


def show_failures(name, verdicts, shown):
    """One of each kind: the last line of a traceback says which."""
    seen = Counter()
    for verdict in verdicts:
        if verdict["verdict"] in FAILURES:
            lines = verdict["why"].strip().splitlines() or [""]
            kind = f"{verdict['verdict']}: {lines[-1][:160]}"
            places = [line.strip() for line in lines if line.lstrip().startswith("File")]
            seen[kind] += 1
            if seen[kind] <= shown:
                print(f"  {name}, case {verdict['case']}: {kind} {places[-1] if places else ''}")


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    parser.add_argument("--cases", type=int, default=1000, help="of each loader")
    parser.add_argument("--only", nargs="+", choices=LOADERS, default=list(LOADERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--folder", type=Path, help="where the files are (default: a temporary one)"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/fuzz.json")
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))).resolve()
    made = {}
    for name in options.only:
        verdicts = cases_of(name, options.seed, options.cases, folder)
        made[name] = {"what": LOADERS[name].what, **summary(verdicts)}
        print(name, {k: v for k, v in made[name].items() if k != "what"}, flush=True)
        show_failures(name, verdicts, 2)
        shutil.rmtree(folder / name)
    known = json.loads(options.output.read_text())["loaders"] if options.output.exists() else {}
    found = {**known, **made}  # what was not tried now stays as it was found
    made_in_order = {name: found[name] for name in LOADERS if name in found}
    about = {"seed": options.seed, "seconds_allowed": SECONDS}
    write(options.output, {**about, "loaders": made_in_order})
    if any(entry[kind] for entry in made.values() for kind in FAILURES):
        sys.exit(f"the files of failed cases are in {folder / 'failures'}")
    if not options.folder:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
