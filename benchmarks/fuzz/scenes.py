"""Small, sound folders to begin with: a bank with its heads and images, a finished run."""

import argparse
import functools
import io
import shutil
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from ms_biaten.spec.bank import Bank, write_manifest
from ms_biaten.spec.config import Config, Run
from ms_biaten.spec.extraction import Plan
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.run import RunFolder
from ms_biaten.spec.source_training import initial_heads
from ms_biaten.spec.sources import write_heads
from ms_biaten.spec.states import DIGEST
from ms_biaten.spec.weights import read_safetensors, write_safetensors

DOMAINS, CLASSES = ("ink", "chalk"), ("bar", "disc", "frame")
SAMPLES = tuple(f"{name}/{row}.png" for name in CLASSES for row in range(4))
RAW, WIDTH = 128, 4  # 128: of the thin ResNet below
THIN = {"layers": [1, 1, 1, 1], "channels": [8, 16, 24, 32]}
PLACE = Config(run=Run(mode="pynative"))


def images(root):
    for number, sample in enumerate(SAMPLES):
        path = root / "images" / sample
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 12), (20 * number, 90, 40)).save(path)


def origin():
    return {
        "backbone": "resnet50",
        "backbone_options": {"image_size": 32, **THIN},
        "weights": dict.fromkeys(DOMAINS, "0" * 64),
        "transform": {"resize": 40, "crop": 32, "seed": 0},
        "dtype": "float32",
    }


def bank(root):
    """Two sources, three classes, twelve samples; no checksum, so that damage is not just that."""
    images(root)
    folder = root / "bank"
    folder.mkdir()
    rng = np.random.default_rng(0)
    features = rng.normal(size=(len(SAMPLES), 2, RAW)).astype(np.float32)
    with write_atomically(folder / "center.npy") as file:
        np.save(file, features)
    labels = np.repeat(np.arange(3), 4)
    made = Bank("clay", DOMAINS, CLASSES, SAMPLES, features, labels)
    write_manifest(folder, made, ["center"], origin(), ["bar/9.png"], {"ink": "../sources"})
    manifest = (folder / "manifest.json").read_text()
    start = manifest.index('"center": "') + len('"center": ')
    (folder / "manifest.json").write_text(manifest[:start] + "null" + manifest[start + 66 :])
    for seed, domain in enumerate(DOMAINS):
        write_heads(folder / "heads", domain, initial_heads(RAW, WIDTH, 3, seed), CLASSES)


def settings(root, *more):
    quick = ["train.epochs=2", "train.batch_size=6", "attention.width=4", "attention.heads=1"]
    texts = [f"data.bank={root / 'bank'}", "run.mode=pynative", "data.workers=0", *quick, *more]
    return load_config("own", target="clay", overrides=texts)


def run(root):
    """A finished run on that bank, by PyTorch."""
    from ms_biaten.spec.target import open_target
    from ms_biaten.spec.training import train
    from torch_ref import backend

    bank(root)
    config = settings(root, f"run.output={root / 'run'}", "run.select=snd")
    with RunFolder.create(config) as folder:
        train(config, open_target(config), backend, folder, quiet=True)
    for name in ("best", "last"):
        without_digest(root / f"run/checkpoints/{name}.safetensors", format="1")
    shutil.copyfile(root / "run/checkpoints/best.safetensors", root / "best.safetensors")


def without_digest(path, **said):
    """As an earlier release wrote it: a digest would refuse all damage before it is looked at."""
    arrays, metadata = read_safetensors(path)
    del metadata[DIGEST]
    write_safetensors(path, arrays, metadata | said)


def plan():
    return Plan(
        *("clay", DOMAINS, CLASSES, SAMPLES, None, ("center",), 6, "float32"),
        origin={"backbone": "resnet50", "seed": 0},
    )


@functools.cache
def thin(framework):
    return framework.make_backbone("resnet50", **THIN)


@functools.cache
def trainer():
    """Of PyTorch, with the thin ResNet: cases load their states into it."""
    from torch_ref import backend
    from torch_ref.pretrain import Trainer

    options = argparse.Namespace(
        lr=0.01, backbone_scale=0.1, weight_decay=0.0, optimizer="sgd", label_smoothing=0.1, seed=0
    )
    model = backend.make_backbone("resnet50", **THIN)
    return Trainer(model, initial_heads(RAW, WIDTH, 3, 0), options, PLACE)


def tarball(content):
    """A package as npm packs it, with this as its icons.json."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("package/icons.json")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def in_temporary(make):
    """The files that `make` writes into a folder, by name."""
    with tempfile.TemporaryDirectory() as place:
        make(Path(place))
        return {p.name: p.read_bytes() for p in Path(place).iterdir()}
