"""A folder in which the documents' commands run: small real files under the names they use."""

import shutil
import sys

import numpy as np
from PIL import Image

from ms_biaten.spec.bank import Bank, read_manifest, save_bank
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.orders import class_order
from ms_biaten.spec.source_training import initial_heads
from ms_biaten.spec.weights import write_safetensors
from tests.conftest import ROOT
from tests.pictures import CLASSES, draw_class
from tests.thin_runs import THIN
from torch_ref.backbones import make_backbone
from torch_ref.importers import save_backbone, save_source

SHIPPED = ROOT / "ms_biaten/data/emoji/twemoji"


def make_place(place):
    """Pictures, thin backbones, sources, banks, records; code by links to the checkout."""
    for name in ("ms_biaten", "torch_ref", "configs"):
        (place / name).symlink_to(ROOT / name)
    (place / ".venv").symlink_to(sys.prefix)
    (place / "benchmarks/results").mkdir(parents=True)
    for record in (ROOT / "benchmarks/results").glob("*.jsonl"):
        shutil.copy(record, place / "benchmarks/results")
    own_pictures(place)
    thin_files(place)
    benchmark_pictures(place / "folder", "office_caltech", "office_caltech/plain")
    benchmark_pictures(place / "OfficeHome", "office_home", "office_home/lists")
    office_bank(place)
    emoji_pictures(place / "data/emoji")
    return place


def own_pictures(place):
    for style, name in (("ink", "photo"), ("chalk", "sketch"), ("clay", "drawn")):
        draw_class(place / name, style, count=6)
    (place / "classes.txt").write_text("\n".join(CLASSES))
    for name in ("pictures", "new_pictures"):  # without labels: plain files in one folder
        (place / name).mkdir()
        for number, path in enumerate(sorted((place / "drawn").rglob("*.png"))):
            Image.open(path).save(place / name / f"{number:02d}.jpg")
    shutil.copy(place / "pictures/00.jpg", place / "one.jpg")


def thin_files(place):
    thin = make_backbone("resnet50", **THIN)
    save_backbone(place / "resnet50.safetensors", "resnet50", thin)
    save_backbone(place / "amazon.backbone.safetensors", "resnet50", thin)


def dot(path, rng):
    """The smallest picture that is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 255, (24, 24, 3), np.uint8)).save(path)


def benchmark_pictures(folder, name, order):
    """One picture for each class of each domain."""
    rng = np.random.default_rng(0)
    for domain in benchmark(name).domains:
        for label in class_order(order):
            dot(folder / domain / label / "0.png", rng)


def office_bank(place):
    """Office-Caltech at its real widths with made-up features, where both commands look for it."""
    bench, rng = benchmark("office_caltech"), np.random.default_rng(0)
    domains, classes = bench.sources("dslr"), class_order("office_caltech/plain")
    samples = tuple(f"dslr/{index}.jpg" for index in range(64))
    features = rng.normal(size=(64, 3, 1280)).astype(np.float32)
    labels = rng.integers(0, len(classes), 64)
    save_bank(place / "banks/dslr", Bank("dslr", domains, classes, samples, features, labels))
    (place / "heads").mkdir()
    for seed, domain in enumerate(domains):
        heads = initial_heads(1280, 256, len(classes), seed)
        write_safetensors(place / f"heads/{domain}.safetensors", heads, {})
    shutil.copytree(place / "banks/dslr", place / "data/office_caltech/banks/dslr")
    shutil.copytree(place / "heads", place / "data/office_caltech/banks/dslr/heads")


def emoji_pictures(root):
    """The shipped target's images by name, a list of some of them, and thin sources."""
    manifest, rng = read_manifest(SHIPPED), np.random.default_rng(0)
    for sample in manifest["samples"]:
        dot(root / sample, rng)
    some = [row for row in range(len(manifest["samples"])) if row % 12 == 0]
    lines = [f"{manifest['samples'][row]} {manifest['labels'][row]}" for row in some]
    (root / "lists").mkdir()
    (root / "lists/twemoji_target.txt").write_text("\n".join(lines))
    (root / "lists/classes.txt").write_text("\n".join(manifest["classes"]))
    for seed, domain in enumerate(manifest["domains"]):
        backbone, heads = make_backbone("resnet50", **THIN), initial_heads(128, 16, 12, seed)
        save_source(root / "sources", domain, "resnet50", backbone, heads, manifest["classes"])
