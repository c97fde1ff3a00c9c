"""Memory over a long run: 300 epochs on emoji, the resident set looked at after every epoch.

    python -m benchmarks.soak                 about 5 minutes on 2 quiet cores

A child trains with the default config; this process watches it from outside. Writes
benchmarks/results/soak.json and .png; docs/reliability.md has the table.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.measuring import ROOT, write

WARM = 20  # epochs until everything is compiled and allocated
LOOK = 0.05  # seconds between two looks at the results


def resident_mb(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def soak(epochs, config):
    """The resident set in MB after each epoch, from the second on."""
    found = {}
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "ms_biaten", "train", "--config", config, "--no-report"]
        command += ["--set", f"train.epochs={epochs}", "--output", f"{place}/run"]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        results = Path(place) / "run/results.jsonl"
        while child.poll() is None:
            time.sleep(LOOK)
            lines = results.read_bytes().count(b"\n") if results.exists() else 0
            if 1 < lines <= epochs:  # the first line is no epoch, and the last comes at the end
                found.setdefault(lines - 1, resident_mb(child.pid))
        if child.returncode:
            sys.exit(f"the run failed: {child.returncode}")
    return found


def summary(found, epochs):
    """The end beside what it was when warm, and the farthest from it in between."""
    warm = {epoch: mb for epoch, mb in found.items() if epoch >= WARM}
    first, last = found[min(warm)], found[max(warm)]
    worst = max(warm.values(), key=lambda mb: abs(mb - first))
    return {
        "epochs": epochs,
        "seen": len(found),
        "warm_epoch": min(warm),
        "warm_mb": round(first, 1),
        "end_mb": round(last, 1),
        "end_percent": round(100 * (last / first - 1), 2),
        "worst_percent": round(100 * (worst / first - 1), 2),
    }


def plot(found, path):
    figure, axes = plt.subplots(figsize=(7, 2.6))
    axes.plot(list(found), list(found.values()), lw=1)
    axes.set(xlabel="epoch", ylabel="resident, MB", ylim=(0, 1.2 * max(found.values())))
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--config", default="emoji")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/soak.json")
    options = parser.parse_args()
    found = soak(options.epochs, options.config)
    told = summary(found, options.epochs)
    print(told)
    memory = {str(epoch): round(mb, 1) for epoch, mb in found.items()}
    write(options.output, {"config": options.config, **told, "resident_mb": memory})
    plot(found, options.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
