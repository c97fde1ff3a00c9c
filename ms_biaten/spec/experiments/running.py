"""Runs the cells that the record lacks, each in a folder of its own."""

from __future__ import annotations

import contextlib
import importlib
import io
import multiprocessing
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ms_biaten.spec import console
from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import RunError
from ms_biaten.spec.experiments.grid import Cell
from ms_biaten.spec.experiments.record import Line, Record
from ms_biaten.spec.run import RunFolder
from ms_biaten.spec.schedules import batch_starts
from ms_biaten.spec.stopping import obey_parent, stop_children
from ms_biaten.spec.target import open_target
from ms_biaten.spec.training import train


@dataclass(frozen=True)
class Job:
    """One cell, ready to run."""

    cell: Cell
    config: Config
    key: str
    backend: str
    given: tuple[str, ...] = ()  # the command line's settings, for a reader of the record
    keep: Path | None = None  # where named run folders stay; None: in a temporary one

    @property
    def folder(self) -> str:
        weights = self.cell.row.weights
        method = self.cell.row.method + ("" if weights == "native" else f"-{weights}")
        name = f"{method}-{self.cell.profile}-seed{self.cell.seed}-{self.key[:8]}"
        return f"{self.cell.target}/{name}"


def run_jobs(jobs: Sequence[Job], record: Record, done: int, workers: int) -> None:
    """Every finished cell is on disk before the next is shown; an interrupt loses none."""
    total = done + len(jobs)
    with tqdm(desc="cells", total=total, initial=done, disable=None, dynamic_ncols=True) as bar:
        for job, line in _in_turn(jobs) if workers == 1 else _side_by_side(jobs, workers):
            record.append(line)
            bar.update()
            done += 1
            end = line.get("failed") or f"{line['accuracy']:.1f} in {line['seconds']:.0f} s"
            state = "failed: " if "failed" in line else ""
            console.say(f"{done}/{total}  {job.cell}: {state}{end}")


def _in_turn(jobs: Sequence[Job]) -> Iterator[tuple[Job, Line]]:
    for job in jobs:
        yield job, run_job(job)


def _side_by_side(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Line]]:
    # Spawned, not forked: neither framework survives a fork after its first kernel.
    context = multiprocessing.get_context("spawn")
    waiting, running = iter(jobs), {}
    with ProcessPoolExecutor(workers, context, initializer=obey_parent) as pool:
        try:
            # No more at a time than workers: what queues in the pool would outlive an interrupt.
            for job in islice(waiting, workers):
                running[pool.submit(run_quietly, job)] = job
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    done = running.pop(future)
                    line = future.result()
                    for job in islice(waiting, 1):
                        running[pool.submit(run_quietly, job)] = job
                    yield done, line
        except BrokenProcessPool:
            raise RunError("a worker died, perhaps of memory; try fewer --jobs") from None
        except BaseException:
            stop_children()  # they would be waited for, to the end of their runs
            raise


def run_quietly(job: Job) -> Line:
    """In a process of its own: its progress bars would write over the grid's."""
    with contextlib.redirect_stderr(io.StringIO()):
        return run_job(job)


def run_job(job: Job) -> Line:
    """The line of one cell; a run that cannot go on is a line, too, so that the grid goes on."""
    name = job.config.data.benchmark
    about = {"key": job.key, "benchmark": name, **job.cell.settings(), "set": job.given}
    with tempfile.TemporaryDirectory() as temporary:
        place = (job.keep or Path(temporary)) / job.folder
        config = replace(job.config, run=replace(job.config.run, output=str(place)))
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                lines, samples = run_in(config, job.backend)
        except OSError:
            raise  # the disk or a folder: the next cell would fail as well
        except Exception as error:
            return {**about, "failed": what_happened(error)}
    return {**about, **summary(lines, samples)}


def run_in(config: Config, backend: str) -> tuple[list[Line], int]:
    """The lines of a finished run, and how many samples an epoch of it trains on."""
    framework = importlib.import_module(backend)
    framework.prepare(config)
    target = open_target(config)
    with RunFolder.begun_or_new(config) as folder:
        lines = train(config, target, framework, folder).lines
    count, size = len(target.bank), config.train.batch_size
    return lines, min(count, size * len(batch_starts(count, size)))


def summary(lines: Sequence[Line], samples: int) -> dict[str, Any]:
    """What tables need of a run."""
    start, final = lines[0], lines[-1]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    # The median epoch: the first one compiles, and a busy machine slows a few.
    typical = statistics.median(line["seconds"] for line in epochs) if epochs else None
    return {
        "versions": start["versions"],
        "trained_parameters": start["trained_parameters"],
        "baselines": start["baselines"],
        **{k: final[k] for k in ("accuracy", "class_accuracy", "beta", "selected_epoch")},
        "accuracies": [line["accuracy"] for line in [start, *epochs]],
        "samples_per_second": round(samples / typical, 1) if typical else None,
        "seconds": final["seconds"],
    }


def what_happened(error: Exception) -> str:
    """One clause: what follows in a message is about a folder that is gone."""
    text = " ".join(str(error).split()).split(";")[0][:200]
    known = type(error).__module__.startswith("ms_biaten")
    return text if known else f"{type(error).__name__}: {text}"
