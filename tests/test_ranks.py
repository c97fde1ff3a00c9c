"""Several workers under `msrun` on a CPU: the numbers of one process, one writer, a killed one.

At least 30 steps each, batches that do not divide evenly, a shorter last one.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.conftest import ROOT, results

BIN = Path(sys.executable).parent
MSRUN = shutil.which("msrun", path=str(BIN))
SCRIPT = str(ROOT / "tests/worker_run.py")
LIMIT = 1e-5

COMMON = "--config debug --set attention.width=8 --no-report"
QUICK = f"{COMMON} --set run.mode=pynative"
# 1000 samples: 11 steps an epoch of 97, the last of 30.
PAPER = f"{COMMON} --set train.epochs=3 --set train.batch_size=97"
OFFICIAL = f"{QUICK} --profile official --set train.epochs=3 --set train.batch_size=97"
LONG = f"{QUICK} --set train.epochs=6 --set train.batch_size=97 --set run.checkpoint_seconds=0"
SHORT = f"{QUICK} --set train.epochs=1 --set train.batch_size=97"
FURTHER = ("shot", "decision", "caida", "date", "bn_only")
METHODS = {name: f"{SHORT} --method {name}" for name in FURTHER}
METHODS["caida"] += " --set run.select=im"

pytestmark = pytest.mark.skipif(MSRUN is None, reason="msrun is not beside the interpreter")


def commands(runs):
    return [f"train {options} --output {name}" for name, options in runs.items()]


def environment(**more):
    # `msrun` starts the `python` that it finds first.
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **more}


@contextlib.contextmanager
def started(place, workers, arguments, **more):
    """`msrun` in the folder `place`; whatever happens, no worker outlives the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [f"--worker_num={workers}", f"--local_worker_num={workers}", "--join=True"]
    options += [f"--master_port={port}", "--log_dir=logs"]
    with (place / "msrun.txt").open("w") as output:
        process = subprocess.Popen(
            [MSRUN, *options, SCRIPT, *arguments],
            cwd=place,
            env=environment(**more),
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # ends all that it has started
                process.wait(30)


def shared(place, workers, arguments):
    """A run of several workers to its end."""
    with started(place, workers, arguments) as process:
        code = process.wait(200)
    assert code == 0, (place / "msrun.txt").read_text()[-3000:]
    return place


@pytest.fixture(scope="module")
def extraction(tmp_path_factory):
    """A command that extracts 19 pictures, one of them broken, in batches of 5."""
    from tests.pictures import CLASSES, draw_class
    from tests.thin_runs import MODEL, OPS, thin_sources

    place = tmp_path_factory.mktemp("pictures")
    draw_class(place / "clay", "clay", count=6)
    next((place / "clay").glob("*/*")).with_name("broken.png").write_bytes(b"no picture")
    (place / "classes.txt").write_text("\n".join(CLASSES))
    thin_sources(place / "sources")
    sources = [f"--source {domain}={place / 'sources'}" for domain in ("ink", "chalk")]
    images = f"--images {place / 'clay'} --classes {place / 'classes.txt'} --target clay"
    more = "--batch 5 --skip-bad --views center drawn --output bank"
    return " ".join(["extract", *MODEL, *OPS, *sources, images, more])


@pytest.fixture(scope="module")
def alone(extraction, tmp_path_factory):
    place = tmp_path_factory.mktemp("alone")
    runs = {"paper": PAPER, "official": OFFICIAL, "long": LONG, **METHODS}
    subprocess.run(
        [sys.executable, SCRIPT, extraction, *commands(runs)],
        cwd=place,
        env=environment(),
        check=True,
        timeout=200,
        stdout=subprocess.DEVNULL,
    )
    return place


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The long run, one of whose two workers was killed in the middle: (place, exit code)."""
    place = tmp_path_factory.mktemp("killed")
    # The scheduler, MindSpore's own, gives a worker up after 30 seconds, unless told otherwise.
    with started(place, 2, commands({"long": LONG}), MS_NODE_TIMEOUT="5") as process:
        lines, until = place / "long/results.jsonl", time.monotonic() + 120
        while not (lines.is_file() and len(lines.read_text().splitlines()) > 3):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        os.kill(int((place / "1.pid").read_text()), signal.SIGKILL)
        code = process.wait(60)
    return place, code


@pytest.fixture(scope="module")
def two(extraction, tmp_path_factory):
    runs = commands({"paper": PAPER, **METHODS})
    return shared(tmp_path_factory.mktemp("two"), 2, [extraction, *runs])


@pytest.fixture(scope="module")
def three(killed, tmp_path_factory):
    """Three workers: a run of their own, and the one that was broken off with two."""
    place = tmp_path_factory.mktemp("three")
    shutil.copytree(killed[0] / "long", place / "long")
    return shared(place, 3, [*commands({"official": OFFICIAL}), "train --resume long"])


def check_equal(one, other, name, workers):
    """The same weights on all workers and in the file, the same labels, predictions, measures."""
    ours, theirs = (np.load(p / f"{name}.{w}.npz") for p, w in ((other, 0), (one, "s")))
    for tensor in theirs:
        assert np.abs(ours[tensor] - theirs[tensor]).max() <= LIMIT, (name, tensor)
    for worker in range(1, workers):
        same = np.load(other / f"{name}.{worker}.npz")
        assert all((same[tensor] == ours[tensor]).all() for tensor in ours.files), (name, worker)
    kept, expected = (load_file(p / name / "checkpoints/last.safetensors") for p in (other, one))
    assert kept.keys() == expected.keys()
    if "pseudo_labels" in expected:
        np.testing.assert_array_equal(kept["pseudo_labels"], expected["pseudo_labels"])
    for line, wanted in zip(results(other / name), results(one / name), strict=True):
        assert line.keys() == wanted.keys()
        assert line.get("accuracy") == wanted.get("accuracy")
        assert line.get("label_accuracy") == wanted.get("label_accuracy")
        for key in wanted.keys() & {"loss", "grad_norm", "entropy", "im", "snd", "class_accuracy"}:
            assert line[key] == pytest.approx(wanted[key], abs=LIMIT, rel=LIMIT), key
    tables = ((p / name / "predictions.csv").read_text().splitlines() for p in (other, one))
    for row, wanted in zip(*tables, strict=True):
        assert row.split(",")[:2] == wanted.split(",")[:2]


@pytest.mark.parametrize("name", ["paper", *METHODS])
def test_two_workers_reach_the_weights_of_one_process(alone, two, name):
    check_equal(alone, two, name, workers=2)


def test_three_workers_reach_the_weights_of_one_process(alone, three):
    check_equal(alone, three, "official", workers=3)


def test_two_workers_extract_the_bank_of_one_process(alone, two):
    manifests = [json.loads((place / "bank/manifest.json").read_text()) for place in (alone, two)]
    for key in ("samples", "labels", "skipped", "domains", "origin"):
        assert manifests[0][key] == manifests[1][key], key
    assert len(manifests[0]["skipped"]) == 1
    for view in ("center", "drawn"):
        ours, theirs = (np.load(place / f"bank/{view}.npy") for place in (two, alone))
        assert np.abs(ours - theirs).max() <= LIMIT


def test_one_worker_writes_and_speaks(two):
    logs = [(two / f"logs/worker_{worker}.log").read_text() for worker in (0, 1)]
    assert "epoch 3/3" in logs[0] and "run folder: paper" in logs[0]
    assert "epoch" not in logs[1] and "run folder" not in logs[1]


def test_a_killed_worker_ends_the_others_with_a_word(killed):
    place, code = killed
    assert code != 0
    line = "worker 1 is gone, its log may say why; go on with: ms-biaten train --resume long"
    assert line in (place / "logs/worker_0.log").read_text()
    assert results(place / "long")[-1]["kind"] == "epoch"
    with pytest.raises(ProcessLookupError):
        os.kill(int((place / "0.pid").read_text()), 0)


def test_a_broken_run_goes_on_with_another_number_of_workers(alone, three):
    check_equal(alone, three, "long", workers=3)


@pytest.mark.parametrize(
    "command, reason",
    [
        (f"train {QUICK} --output run --controls", "--controls: not with several workers"),
        (f"train {QUICK}", "--output: several workers must be told their folder"),
        (
            f"train {QUICK} --output run --set train.batch_size=499",
            "the shortest batch of an epoch",
        ),
        ("params --config debug", "only extract and train are shared"),
    ],
)
def test_what_is_not_shared_is_refused_before_workers_meet(
    folder, capsys, monkeypatch, command, reason
):
    from ms_biaten.cli import main

    monkeypatch.setenv("MS_WORKER_NUM", "3")
    assert main(command.split()) == 2
    assert reason in capsys.readouterr().err
    assert not list(folder.iterdir())
