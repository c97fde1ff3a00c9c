"""The shipped benchmark: small, whole, and what `python ms_biaten/train.py` runs."""

import json

import numpy as np

from ms_biaten.cli import main
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.target import open_target
from tests.conftest import ROOT, results

BANK = ROOT / "ms_biaten/data/emoji/twemoji"


def test_it_is_small():
    size = sum(path.stat().st_size for path in BANK.rglob("*") if path.is_file())
    assert size < 12e6


def test_both_profiles_find_their_view():
    center, drawn = (
        open_target(load_config("emoji", profile=name)) for name in ("paper", "official")
    )
    assert center.bank.domains == benchmark("emoji").sources("twemoji")
    assert len(center.bank.classes) == 12
    assert center.sizes.raw == 1280
    assert (center.bank.features != drawn.bank.features).any()
    assert set(center.bank.labels) == set(range(12))


def test_its_backbones_really_differ():
    features = open_target(load_config("emoji")).bank.features.astype(np.float32)
    for i in range(4):
        for j in range(i):
            assert np.abs(features[:, i] - features[:, j]).mean() > 0.05
    weights = json.loads((BANK / "manifest.json").read_text())["origin"]["weights"]
    assert len(set(weights.values())) == 4


def test_the_default_run_is_bi_aten_on_it(folder):
    assert main(["train", "--set", "train.epochs=2", "--set", "run.mode=pynative"]) == 0
    (run,) = folder.glob("runs/emoji/twemoji/bi_aten-paper-seed0")
    assert results(run)[-1]["accuracy"] > 30
    assert "Bi-ATEN on emoji" in (run / "report.html").read_text()
