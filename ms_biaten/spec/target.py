"""The target of a run: its bank and the heads of its sources, checked against each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ms_biaten.spec.bank import Bank, check_bank, check_labels, load_bank, read_manifest
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.config import Config
from ms_biaten.spec.debug import debug_bank, debug_source
from ms_biaten.spec.described import Description
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.image_bank import ImageBank
from ms_biaten.spec.placement import placed
from ms_biaten.spec.shapes import Sizes
from ms_biaten.spec.weights import Arrays, load_heads

MAKES = {"emoji": "make emoji", "office_caltech": "make office_caltech IMAGES=FOLDER"}


@dataclass(frozen=True)
class Target:
    bank: Bank
    heads: list[Arrays]
    sizes: Sizes
    described: Description

    def backbones(self, config: Config, framework: Any) -> list[Any] | None:
        """To be trained, too; None where their features are all that is used."""
        if config.train.trainable == "bottleneck":
            return None
        return self.described.open_backbones(framework, folder_of(config.data.models, config))


def open_target(config: Config) -> Target:
    bench = benchmark(config.data.benchmark)
    folder = bank_folder(config)
    if folder:
        bank, where = load_bank(folder, config.profile.view), str(folder)
        bank = placed(bank, config.data.placement)
        described = Description.of_bank(folder)
    else:
        bank, where = debug_bank(config.target, config.profile.view), "the debug benchmark"
        described = Description(bank.domains, bank.classes, {}, {}, Path())
    check_bank(bank, config, bench.class_count or len(bank.classes), where)

    sizes = Sizes.of(config, len(bank.domains), len(bank.classes))
    sizes = replace(sizes, raw=bank.features.shape[2])
    place = heads_folder(config)
    if place:
        heads = load_heads(place, bank.domains, bank.classes, sizes.raw, sizes.width)
    else:
        heads = [debug_source(domain) for domain in bank.domains]
    if config.train.trainable == "backbone":
        bank = image_bank(bank, described, config, where)
    sizes = replace(sizes, width=len(heads[0]["bottleneck.bias"]))
    return Target(bank, heads, sizes, described)


def image_bank(bank: Bank, described: Description, config: Config, where: str) -> Bank:
    """The bank's samples as images, for backbones that change."""
    described.check_images(where)
    if not config.data.images:
        raise UserError(
            "data.images: not set; train.trainable=backbone needs the folder that the bank's "
            "samples are in"
        )
    root = folder_of(config.data.images, config)
    assert root is not None
    seed, workers, size = config.run.seed, config.data.workers, config.run.image_batch
    return ImageBank.of(bank, root, described.transform, seed, workers, size)


def open_names(config: Config) -> Bank:
    """The target's names and labels alone: a bank of width 0, its features left on the disk."""
    folder = folder_of(config.data.bank, config)
    if not folder and config.data.benchmark == "debug":
        return debug_bank(config.target)
    if not folder:
        raise UserError("data.bank: not set in the run's config.yaml")
    manifest = read_manifest(folder)
    domains, classes, samples = (tuple(manifest[k]) for k in ("domains", "classes", "samples"))
    nothing = np.empty((len(samples), len(domains), 0), np.float32)
    labels = None if manifest["labels"] is None else np.asarray(manifest["labels"])
    bank = Bank(manifest["target"], domains, classes, samples, nothing, labels)
    check_labels(bank, str(folder))
    return bank


SHIPPED = Path(__file__).resolve().parents[1] / "data"


def bank_folder(config: Config) -> Path | None:
    """None: the debug benchmark's, made in memory."""
    folder, maker = folder_of(config.data.bank, config), MAKES.get(config.data.benchmark)
    if folder and maker and not folder.exists():
        raise UserError(f"no bank of target '{config.target}' at {folder}; `{maker}` builds it")
    if not folder and config.data.benchmark != "debug":
        raise UserError("data.bank: not set; pass --set data.bank=FOLDER, see docs/bank.md")
    return folder


def heads_folder(config: Config) -> Path | None:
    """Beside the bank where no other is set. None: the debug benchmark's, made in memory."""
    if config.data.sources or config.data.benchmark == "debug":
        return folder_of(config.data.sources, config)
    bank = bank_folder(config)
    return bank and bank / "heads"


def folder_of(template: str, config: Config) -> Path | None:
    """`{target}` is the target's name, `{shipped}` the data inside this package."""
    if not template:
        return None
    text = template.replace("{target}", config.target).replace("{shipped}", str(SHIPPED))
    return Path(text).expanduser()
