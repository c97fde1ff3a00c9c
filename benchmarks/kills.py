"""Kills runs at random moments, lets them go on, and compares what they end with: bit for bit.

    python -m benchmarks.kills --kills 200 --jobs 2      50 of each kind of training and extraction
    python -m benchmarks.kills --every-write             before every single write, each in turn

A run is killed (SIGKILL) at a uniformly random moment of its life, gone on with, killed again,
until it ends. After each kill every file must be good, nothing that was reached may be gone, and
the next command must go on. Writes benchmarks/results/kills.json, for docs/reliability.md.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.kill_scenarios import SCENARIOS, copied, difference
from benchmarks.measuring import ROOT, write
from benchmarks.starter import Starter

RANDOM = ("training, MindSpore", "training, PyTorch", "extraction, MindSpore")
RANDOM += ("extraction, PyTorch",)
COUNTED = ("kills", "clean_resumes", "lost", "corrupt", "runs")


class Bench:
    """One scenario with its unbroken run, and what was counted of its kills."""

    def __init__(self, name, folder, seed=0):
        self.name, self.scenario = name, SCENARIOS[name]
        self.folder, self.random = folder, random.Random(f"{name} {seed}")
        self.counts = dict.fromkeys(COUNTED, 0)
        self.faults = []
        self.scenario.prepare(folder / "template")
        self.starter = Starter(self.scenario.package)
        whole = copied(folder / "template", folder / "whole")
        done = self.starter.run(self.scenario.command, whole)
        if done["code"]:
            sys.exit(f"{name}: the unbroken run failed\n{whole.with_suffix('.log').read_text()}")
        self.life, self.expected = done["seconds"], self.scenario.end(whole)

    def fault(self, kind, what):
        self.counts[kind] += 1
        self.faults.append(what)
        print(f"{self.name}: {kind}: {what}", file=sys.stderr, flush=True)

    def chain(self, kills, before=None):
        """One run, killed until `kills` are used up or it ends; how many it took."""
        place = copied(self.folder / "template", self.folder / "run")
        reached, used = {}, 0
        while True:
            seconds = None
            if before is None and used < kills:
                seconds = self.random.uniform(0, self.life)
            command = self.scenario.next(place)
            done = self.starter.run(command, place, seconds, None if used else before)
            if not done["killed"]:
                self.life = self.life if used else done["seconds"]  # the machine's pace changes
                break
            used += 1
            self.counts["kills"] += 1
            reached = self.look(place, reached)
        self.conclude(place, done["code"], used)
        shutil.rmtree(place)
        place.with_suffix(".log").unlink()
        return used

    def look(self, place, reached):
        """After a kill: everything readable, and no less than before."""
        try:
            now = self.scenario.progress(place)
        except Exception as error:
            self.fault("corrupt", repr(error))
            return reached
        gone = [key for key, value in reached.items() if now.get(key, 0) < value]
        if gone:
            self.fault("lost", f"{gone} of {reached}, now {now}")
        return {**reached, **now}

    def conclude(self, place, code, used):
        self.counts["runs"] += 1
        if not self.scenario.is_done(code, place):
            log = place.with_suffix(".log").read_text().splitlines()[-1:]
            return self.fault("lost", f"exit code {code}: {log}")
        apart = difference(self.expected, self.scenario.end(place))
        if apart:
            return self.fault("corrupt", f"after {used} kills, unlike the unbroken run:{apart}")
        self.counts["clean_resumes"] += used
        return None


def random_kills(bench, kills):
    while bench.counts["kills"] < kills:
        bench.chain(min(kills - bench.counts["kills"], 8))


def every_write(bench, stride=1):
    """Until a run is no longer killed: it has no more writes."""
    number = 1
    while bench.chain(1, before=number):
        number += stride
        print(f"{bench.name}: before write {number}", file=sys.stderr, flush=True)


def measured(name, work, seed):
    """{name: counts} of one scenario, in folders of its own."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(name, Path(folder), seed)
        try:
            work(bench)
        finally:
            bench.starter.close()
    counts = {**bench.counts, "minutes": round((time.monotonic() - started) / 60, 1)}
    print(name, counts, flush=True)
    return {name: counts}


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="over training and extraction")
    parser.add_argument("--further", type=int, default=20, help="of each other scenario")
    parser.add_argument("--every-write", action="store_true")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="SCENARIO")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/kills.json")
    options = parser.parse_args()

    def one(name):
        if options.every_write:
            return measured(name, every_write, options.seed)
        kills = options.kills // len(RANDOM) if name in RANDOM else options.further
        return measured(name, lambda bench: random_kills(bench, kills), options.seed)

    found = {}
    chosen = options.only or [n for n in SCENARIOS if not options.every_write or "PyT" in n]
    with ThreadPoolExecutor(options.jobs) as pool:
        for part in pool.map(one, chosen):
            found |= part
    record = json.loads(options.output.read_text()) if options.output.exists() else {}
    known = {key: record.get(key, {}) for key in ("random", "every_write")}
    known["every_write" if options.every_write else "random"] |= found
    write(options.output, known)
    faults = sum(part["lost"] + part["corrupt"] for part in found.values())
    print(f"{sum(part['kills'] for part in found.values())} kills, {faults} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
