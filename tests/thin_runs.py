"""Finished runs on a few pictures with thin ResNets, for the tests of what comes after a run."""

import os
from pathlib import Path

from ms_biaten.cli import main as ms_main
from ms_biaten.spec.source_training import initial_heads
from tests.pictures import CLASSES, draw_class
from tests.test_backbones import scrambled
from torch_ref.backbones import make_backbone
from torch_ref.cli import main as torch_main
from torch_ref.importers import save_source

MAINS = {"mindspore": ms_main, "torch": torch_main}
THIN = {"layers": [1, 1, 1, 1], "channels": [8, 16, 24, 32]}
MODEL = ["--backbone", "resnet50", "--resize", "40", "--crop", "32"]
for option, value in THIN.items():
    MODEL += ["--backbone-set", f"{option}={value}".replace(" ", "")]
OPS = ["--mode", "pynative"]


def thin_sources(folder, first=0):
    for seed, domain in enumerate(("ink", "chalk"), first):
        # Scrambled: features of a fresh ResNet hardly differ from image to image.
        backbone = scrambled(make_backbone("resnet50", **THIN), seed)
        heads = initial_heads(128, 16, 3, seed)
        save_source(folder, domain, "resnet50", backbone, heads, CLASSES)


def make_runs(place):
    """Pictures, two sources, a bank, and runs: `run`, end to end (`live`), one-hot (`one_hot`)."""
    draw_class(place / "clay", "clay", count=6)
    (place / "classes.txt").write_text("\n".join(CLASSES))
    thin_sources(place / "sources")
    before = Path.cwd()
    os.chdir(place)
    try:
        sources = ["--source", "ink=sources", "--source", "chalk=sources"]
        images = ["--images", "clay", "--classes", "classes.txt", "--target", "clay"]
        assert ms_main(["extract", *MODEL, *OPS, *sources, *images, "--output", "bank"]) == 0
        common = ["train", "--config", "own", "--target", "clay", "--no-report"]
        settings = ["data.bank=bank", "train.epochs=1", "train.batch_size=9", "run.mode=pynative"]
        settings += ["attention.width=8"]
        common += [part for setting in settings for part in ("--set", setting)]
        live = ["--set", "train.trainable=backbone", "--set", "data.images=clay"]
        live += ["--method", "decision", "--set", "method.weights=aten"]
        one_hot = ["--profile", "official", "--set", "profile.view=center"]
        for output, more in (("run", []), ("live", live), ("one_hot", one_hot)):
            assert ms_main([*common, *more, "--output", output]) == 0
    finally:
        os.chdir(before)
    return place
