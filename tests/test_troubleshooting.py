"""Every line of docs/troubleshooting.md that is ours is one that the program prints."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ms_biaten.cli import main as ms_main
from ms_biaten.spec.bank import Bank, save_bank
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.commands import exit_code
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.orders import class_order
from ms_biaten.spec.run import RunFolder
from ms_biaten.spec.source_training import initial_heads
from ms_biaten.spec.target import SHIPPED
from ms_biaten.spec.weights import write_safetensors
from ms_biaten.watch import Watch
from tests.conftest import ROOT, SMALL
from tests.documents import headings
from tests.pictures import draw_class
from torch_ref.cli import main as torch_main
from torch_ref.torchvision_shim import SYMPTOM

PAGE = ROOT / "docs/troubleshooting.md"
LINES = [h.removeprefix("### ").strip("`") for h in headings(PAGE) if h.startswith("### ")]
PLAIN = ["train", *SMALL]
OFFICE = ["train", "--config", "office_caltech", "--target", "dslr", "--set", "model.raw_width=0"]
OFFICE += ["--set", "data.bank=banks/{target}", "--set", "data.sources=heads"]
OWN = ["train", "--config", "own", "--target", "mine", "--set", "data.bank=banks/mine"]


def bank_at(folder, domains, classes):
    samples = tuple(map(str, range(40)))
    features = np.zeros((40, len(domains), 8), np.float32)
    save_bank(Path(folder), Bank(Path(folder).name, domains, classes, samples, features))


def office(classes, stored):
    """A bank whose classes are in one order, and heads that were trained with another."""
    domains = benchmark("office_caltech").sources("dslr")
    bank_at("banks/dslr", domains, classes)
    Path("heads").mkdir()
    for domain in domains:
        heads, said = initial_heads(8, 256, 10, 0), {"classes": json.dumps(stored)}
        write_safetensors(Path(f"heads/{domain}.safetensors"), heads, said)


# -- how each of our lines comes about ------------------------------------------------------------


def absent_device(monkeypatch):
    return ms_main([*PLAIN, "--device", "GPU"])


def timm_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    draw_class(Path("ink"), "ink", count=2)
    images = ["--domain", "ink", "--images", "ink", "--labelled", "--output", "sources"]
    return torch_main(["pretrain", *images, "--backbone", "resnet50", "--batch", "2"])


def workers_without_folder(monkeypatch):
    monkeypatch.setenv("MS_WORKER_NUM", "2")
    return ms_main(PLAIN)


def worker_gone(monkeypatch):
    """tests/test_ranks.py kills one; this is the line that it finds."""
    watch = Watch()
    watch.begin("ms-biaten train --resume long")
    print(watch.line(1), file=sys.stderr)


def unknown_order(monkeypatch):
    plain = class_order("office_caltech/plain")
    office((plain[1], plain[0], *plain[2:]), None)
    return ms_main(OFFICE)


def order_of_the_heads(monkeypatch):
    office(class_order("office_caltech/plain"), list(class_order("office_caltech/office31")))
    return ms_main(OFFICE)


def no_bank(monkeypatch):
    return ms_main(["train", "--target", "noto"])


def changed_features(monkeypatch):
    bank_at("banks/mine", ("a", "b"), ("x", "y"))
    features = np.load("banks/mine/center.npy")
    np.save("banks/mine/center.npy", features + 1)
    return ms_main(OWN)


def begun():
    RunFolder.create(load_config("debug", settings={"run.output": "runs/mine"}))


def other_settings(monkeypatch):
    begun()
    settings = ["--config", "debug", "--set", "train.lr=0.5"]
    return ms_main(["train", *settings, "--resume", "runs/mine"])


def taken_output(monkeypatch):
    begun()
    return ms_main([*PLAIN, "--output", "runs/mine"])


def batch_of_one(monkeypatch):
    return ms_main([*PLAIN, "--set", "train.batch_size=1"])


def batch_too_large(monkeypatch):
    return ms_main([*PLAIN, "--set", "train.batch_size=2000"])


def compiler_cache(monkeypatch):
    monkeypatch.setenv("MS_COMPILER_CACHE_ENABLE", "1")
    return ms_main(PLAIN)


def full_disk(monkeypatch):
    return exit_code("ms-biaten", lambda: Path("/dev/full").write_bytes(b"x"))


def no_python(monkeypatch):
    """`make` with nothing on its path."""
    make, empty = shutil.which("make"), Path("empty").resolve()
    empty.mkdir()
    done = subprocess.run(
        [make, "-C", ROOT, "train", f"VENV={empty}/venv"],
        env={**os.environ, "PATH": str(empty)},
        capture_output=True,
        text=True,
    )
    print(done.stdout, file=sys.stderr)
    return done.returncode


OURS = {
    "No Python 3.10": no_python,
    "python -m torch_ref: timm is not installed": timm_missing,
    "ms-biaten: device": absent_device,
    "ms-biaten: --output: several workers": workers_without_folder,
    "ms-biaten: worker 1 is gone": worker_gone,
    "ms-biaten: banks/dslr: its classes": unknown_order,
    "ms-biaten: heads/amazon.safetensors": order_of_the_heads,
    "ms-biaten: no bank of target": no_bank,
    "ms-biaten: banks/mine/center.npy": changed_features,
    "ms-biaten: --resume": other_settings,
    "ms-biaten: output runs/mine": taken_output,
    "ms-biaten: train.batch_size: batch": batch_of_one,
    "ms-biaten: train.batch_size: 2000": batch_too_large,
    "ms-biaten: MS_COMPILER_CACHE_ENABLE": compiler_cache,
    "ms-biaten: [Errno 28]": full_disk,
}


@pytest.mark.parametrize("beginning", OURS)
def test_our_lines_are_printed(beginning, folder, monkeypatch, capfd):
    (told,) = (line for line in LINES if line.startswith(beginning))
    assert OURS[beginning](monkeypatch) != 0
    printed = capfd.readouterr().err.replace(f"{SHIPPED}/", "")
    assert told in printed.splitlines()


def test_every_line_of_ours_is_provoked():
    ours = [line for line in LINES if line.startswith(("ms-biaten: ", "python -m torch_ref: "))]
    missed = [line for line in ours if not line.startswith(tuple(OURS))]
    assert not missed, f"say in tests/test_troubleshooting.py how these come about: {missed}"


def test_the_symptom_of_the_shim_is_there():
    assert f"RuntimeError: {SYMPTOM}" in LINES


@pytest.mark.parametrize("value", ["", "0"])
def test_a_cache_that_is_off_is_fine(value, monkeypatch):
    monkeypatch.setenv("MS_COMPILER_CACHE_ENABLE", value)
    assert ms_main(["params", "--config", "debug", "--method", "aten"]) == 0


def test_the_cache_is_refused_before_anything_is_written(folder, monkeypatch):
    assert compiler_cache(monkeypatch) == 2
    assert not list(folder.iterdir())
