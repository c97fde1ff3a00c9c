"""Every file that a command reads from somebody else: a sound one, and who reads it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.fuzz import readers, scenes
from benchmarks.fuzz.containers import damaged_ckpt, damaged_npy, damaged_safetensors
from benchmarks.fuzz.pickles import damaged_pickle, torch_bytes
from benchmarks.fuzz.pictures import damaged_image, encoded
from benchmarks.fuzz.texts import (
    damaged_classes,
    damaged_list,
    damaged_setting,
    damaged_table,
    damaged_tarball,
)
from benchmarks.fuzz.trees import damaged_json, damaged_json_lines, damaged_yaml
from ms_biaten.spec.loading import config_root
from ms_biaten.spec.source_training import write_state
from ms_biaten.spec.weights import write_safetensors


@dataclass(frozen=True)
class Loader:
    name: str
    what: str
    make: Callable[[Path], None]  # sound files in an empty folder
    read: Callable[[Path], None]  # as a command would
    damage: dict[str, Callable] = field(default_factory=dict)  # by file
    named: bool = True  # its errors name the file; those of settings name the key


def make_config(root):
    shutil.copyfile(config_root() / "debug.yaml", root / "config.yaml")


def make_setting(root):
    (root / "setting.txt").write_text("train.lr=0.01")


def make_extraction(root):
    from ms_biaten.spec.extraction import Partial

    partial = Partial(root / "bank", scenes.plan())
    partial.put(np.arange(4), {"center": np.ones((4, 2, 6), np.float32)})
    partial.done, partial.bad[2] = 4, "bar/2.png: no image"
    partial.save()


def make_training(root):
    made = scenes.trainer()
    lines = [{"epoch": 1, "loss": 1.0, "held_out": 50.0}]
    write_state(
        root / "ink.state.safetensors", readers.IDENTITY, lines, made.weights(), made.state()
    )
    scenes.without_digest(root / "ink.state.safetensors")


def make_backbone(root):
    from torch_ref import backend

    arrays = backend.arrays_of(scenes.thin(backend))
    said = {"format": "ms_biaten.backbone", "model": "resnet50"}
    write_safetensors(root / "ink.backbone.safetensors", arrays, said)


def make_pickle(root):
    import torch

    tensors = {"bottleneck.weight": torch.ones(4, 8), "bottleneck.bias": torch.zeros(4)}
    (root / "ink.pth").write_bytes(torch_bytes(tensors))


def make_ckpt(root):
    from ms_biaten import backend

    backend.save_weights(scenes.thin(backend), root / "ink.ckpt")


def make_list(root):
    scenes.images(root)
    (root / "images/linked").symlink_to(root / "images/bar")
    labels = {name: label for label, name in enumerate(scenes.CLASSES)}
    lines = [f"{name} {labels[name.split('/')[0]]}\n" for name in scenes.SAMPLES]
    (root / "list.txt").write_text("".join(lines))


def make_classes(root):
    (root / "classes.txt").write_text("\n".join(scenes.CLASSES))


def make_image(root):
    import random

    from benchmarks.fuzz.pictures import picture

    (root / "picture.png").write_bytes(encoded(picture(random.Random(0)), "PNG"))


def make_record(root):
    shutil.copyfile(Path(__file__).parents[1] / "results/emoji.jsonl", root / "all.jsonl")
    lines = (root / "all.jsonl").read_text().splitlines()
    (root / "record.jsonl").write_text("".join(line + "\n" for line in lines[:40]))


def make_stop(root):
    scenes.run(root)
    said = {"what": "ce became nan", "try": "a smaller train.lr", "samples": ["a"], "epoch": 1}
    (root / "run/stopped.json").write_text(json.dumps(said))


def make_sweep(root):
    scenes.run(root)
    cells = [(lam, gam) for lam in (0.1, 1.0) for gam in (0.1, 1.0)]
    text = '{{"lambda_intra": {}, "gamma": {}, "accuracy": 50.0}}\n'
    (root / "sweep.jsonl").write_text("".join(text.format(*cell) for cell in cells))


def make_tarball(root):
    icons = b'{"icons": {"a": {"body": "<path/>"}}, "aliases": {"b": {"parent": "a"}}}'
    (root / "package.tgz").write_bytes(scenes.tarball(icons))


CONFIG, SETTING = {"config.yaml": damaged_yaml}, {"setting.txt": damaged_setting}
CHECKPOINT = {"run/checkpoints/best.safetensors": damaged_safetensors}
ALL = (
    Loader(
        "config", "config YAML", make_config, readers.config, {"config.yaml": damaged_yaml}, False
    ),
    Loader(
        "setting",
        "`--set` text",
        make_setting,
        readers.setting,
        {"setting.txt": damaged_setting},
        False,
    ),
    Loader(
        "run config",
        "a run's config.yaml",
        scenes.run,
        readers.run_config,
        {"run/config.yaml": damaged_yaml},
    ),
    Loader(
        "manifest",
        "bank manifest",
        scenes.bank,
        readers.manifest,
        {"bank/manifest.json": damaged_json},
    ),
    Loader(
        "features",
        "bank features .npy",
        scenes.bank,
        readers.features,
        {"bank/center.npy": damaged_npy},
    ),
    Loader(
        "heads",
        "source heads .safetensors",
        scenes.bank,
        readers.heads,
        {"bank/heads/ink.safetensors": damaged_safetensors},
    ),
    Loader(
        "checkpoint", "checkpoint, by PyTorch", scenes.run, readers.checkpoint_torch, CHECKPOINT
    ),
    Loader(
        "checkpoint ms",
        "checkpoint, by MindSpore",
        scenes.run,
        readers.checkpoint_mindspore,
        CHECKPOINT,
    ),
    Loader(
        "results",
        "results.jsonl: report, select, compare",
        scenes.run,
        readers.results,
        {"run/results.jsonl": damaged_json_lines},
    ),
    Loader(
        "predictions",
        "predictions.csv: report",
        scenes.run,
        readers.predictions,
        {"run/predictions.csv": damaged_table},
    ),
    Loader(
        "stop",
        "stopped.json: report",
        make_stop,
        readers.stop,
        {"run/stopped.json": damaged_json},
    ),
    Loader(
        "sweep",
        "sweep record: report",
        make_sweep,
        readers.sweep,
        {"sweep.jsonl": damaged_json_lines},
    ),
    Loader(
        "record",
        "experiment record",
        make_record,
        readers.record,
        {"record.jsonl": damaged_json_lines},
    ),
    Loader(
        "model", "model.json of a run", scenes.run, readers.model, {"run/model.json": damaged_json}
    ),
    Loader(
        "extraction",
        "unfinished extraction",
        make_extraction,
        readers.extraction,
        {"bank.partial/state.json": damaged_json, "bank.partial/center.npy": damaged_npy},
    ),
    Loader(
        "training",
        "unfinished pretraining",
        make_training,
        readers.training,
        {"ink.state.safetensors": damaged_safetensors},
    ),
    Loader(
        "backbone",
        "backbone .safetensors, both",
        make_backbone,
        readers.backbone,
        {"ink.backbone.safetensors": damaged_safetensors},
    ),
    Loader("pickle", "PyTorch .pth", make_pickle, readers.pickled, {"ink.pth": damaged_pickle}),
    Loader("ckpt", "MindSpore .ckpt", make_ckpt, readers.ckpt, {"ink.ckpt": damaged_ckpt}),
    Loader("list", "list of images", make_list, readers.listed, {"list.txt": damaged_list}),
    Loader(
        "classes",
        "list of classes",
        make_classes,
        readers.classes,
        {"classes.txt": damaged_classes},
    ),
    Loader("image", "image file", make_image, readers.image, {"picture.png": damaged_image}),
    Loader(
        "package",
        "emoji package .tgz",
        make_tarball,
        readers.package,
        {"package.tgz": damaged_tarball},
    ),
)
LOADERS = {loader.name: loader for loader in ALL}
