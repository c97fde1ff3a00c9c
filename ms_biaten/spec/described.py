"""What a run knows of its images: sources, classes, backbones and how images are cut.

`model.json` in the run's folder; the bank's manifest said it first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_biaten.spec.bank import check_names, check_origin, read_manifest
from ms_biaten.spec.checks import is_count, is_finite
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import seen_from, write_atomically
from ms_biaten.spec.images import Transform
from ms_biaten.spec.reading import read_json
from ms_biaten.spec.sources import find_source, weights_digest

FILE = "model.json"
FORMAT = "ms_biaten.model"
WORDED = ("global_pool", "act_layer", "norm_layer")  # options of a backbone that are a word
LARGEST_SIDE = 4096  # of an image as a backbone sees it


@dataclass(frozen=True)
class Description:
    """Names of sources and classes, and how a bank's features were made."""

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    origin: dict[str, Any]  # of the bank: empty where no backbone made its features
    models: dict[str, str]  # folders of the sources, seen from `base`
    base: Path

    @classmethod
    def of_bank(cls, folder: Path) -> Description:
        manifest = read_manifest(folder)
        domains, classes = tuple(manifest["domains"]), tuple(manifest["classes"])
        return cls(domains, classes, manifest["origin"], manifest["models"], folder)

    @classmethod
    def of_run(cls, run: Path) -> Description:
        path = run / FILE
        if not path.is_file():
            raise UserError(f"{path}: is not there; `train --resume {run}` writes it anew")
        tree = read_json(path, f"delete it; `train --resume {run}` writes it anew")
        if not isinstance(tree, dict) or tree.get("format") != FORMAT:
            raise UserError(f"{path}: not the description of a model")
        check_names(tree, path)
        check_origin(tree, path)
        domains, classes = tuple(tree["domains"]), tuple(tree["classes"])
        return cls(domains, classes, tree["origin"], tree["models"], run)

    def save(self, run: Path) -> None:
        places = {name: seen_from(run, self.base / place) for name, place in self.models.items()}
        tree = {
            "format": FORMAT,
            "domains": self.domains,
            "classes": self.classes,
            "origin": self.origin,
            "models": places,
        }
        with write_atomically(run / FILE) as file:
            file.write(json.dumps(tree, indent=1).encode())

    # -- how images are seen -------------------------------------------------------------------

    def check_images(self, where: str) -> None:
        origin = self.origin
        missing = [k for k in ("backbone", "transform", "weights") if k not in origin]
        if missing:
            raise UserError(
                f"{where}: its features were not made from images by `extract` "
                f"({', '.join(missing)} unknown), so there is no backbone to see images with"
            )
        cut, digests = origin["transform"], origin["weights"]
        sound = isinstance(cut, dict) and all(is_count(cut.get(k)) for k in ("resize", "crop"))
        sound = sound and 0 < cut["crop"] <= cut["resize"] <= LARGEST_SIDE
        sound = sound and isinstance(digests, dict) and set(digests) >= set(self.domains)
        sound = sound and are_shapes(origin.get("backbone_options", {}))
        if not sound or not isinstance(origin["backbone"], str):
            raise UserError(
                f"{where}: what it says of its backbones is damaged; extract the bank again"
            )

    @property
    def transform(self) -> Transform:
        cut = self.origin["transform"]
        return Transform(int(cut["resize"]), int(cut["crop"]))

    def new_backbones(self, framework: Any) -> list[Any]:
        """The architecture of every source, its weights not loaded: a checkpoint has them."""
        name, options = self.origin["backbone"], self.origin.get("backbone_options", {})
        try:
            return [framework.make_backbone(name, **options) for _ in self.domains]
        except UserError as error:
            raise UserError(f"{self.base}: {error}") from None

    def open_backbones(self, framework: Any, models: Path | None = None) -> list[Any]:
        """The sources' backbones from their files, the very ones that made the features."""
        name, options = self.origin["backbone"], self.origin.get("backbone_options", {})
        opened = []
        for domain in self.domains:
            file, *_ = find_source(self.place_of(domain, models), domain)
            backbone = framework.open_backbone(file, name, **options)
            if weights_digest(framework.arrays_of(backbone)) != self.origin["weights"][domain]:
                raise UserError(
                    f"{file}: not the weights that the bank's features of '{domain}' were made "
                    "with; name the folder that has them (data.models, or --models)"
                )
            opened.append(backbone)
        return opened

    def place_of(self, domain: str, models: Path | None) -> Path:
        if models:
            return models
        if domain not in self.models:
            raise UserError(
                f"where the backbone of source '{domain}' lies is not known; name the folder of "
                "<domain>.backbone.safetensors: data.models, or --models"
            )
        return self.base / self.models[domain]


def are_shapes(options: Any) -> bool:
    """Options of a backbone as files may name them: sizes and switches.

    Another text could name a file or an address, and timm has options that load what they name.
    """
    if not isinstance(options, dict) or set(options) & {"name", "weights", "download"}:
        return False
    worded = {k: v for k, v in options.items() if k in WORDED and isinstance(v, str)}
    return all(map(str.isidentifier, worded.values())) and all(
        is_shape(value) for key, value in options.items() if key not in worded
    )


def is_shape(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= 64 and not any(isinstance(v, list) or not is_shape(v) for v in value)
    return type(value) is bool or (is_finite(value) and abs(value) <= LARGEST_SIDE)
