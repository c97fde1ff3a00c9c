"""A finished run, opened to be used: its engine, and the backbones that see images for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ms_biaten.spec import target
from ms_biaten.spec.config import MACHINE, Config
from ms_biaten.spec.described import Description
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.history import UNTRAINED, check_lines, read_lines
from ms_biaten.spec.loading import from_tree
from ms_biaten.spec.methods import model_shapes
from ms_biaten.spec.metrics import softmax
from ms_biaten.spec.reading import read_yaml
from ms_biaten.spec.run import RunFolder, load_into
from ms_biaten.spec.shapes import Sizes
from ms_biaten.spec.weights import check_arrays


@dataclass(frozen=True)
class Adapted:
    """A run's weights in an engine, ready to predict."""

    config: Config
    described: Description
    engine: Any  # of one framework
    backbones: list[Any]  # empty where features are given

    def predict(self, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """raw (B,N,R) -> probabilities (B,C), beta (B,N), alpha (B,N,N) as it is used."""
        _, _, _, alpha, beta, y = self.engine.outputs(raw)
        return softmax(y.astype(np.float64)).astype(np.float32), beta, alpha


def open_run(run: Path, framework: Any, place: Config, images: bool, models: str = "") -> Adapted:
    """The selected weights of a run; `place` says where it computes."""
    folder = folder_of(run)
    config = folder.config
    asked = {name: getattr(place.run, name) for name in MACHINE}
    config = replace(config, run=replace(config.run, **asked))
    trained = config.method.name not in UNTRAINED
    best = trained and config.run.select != "last"
    arrays, _ = folder.load_checkpoint("best" if best else "last")
    described = Description.of_run(run)
    end_to_end = config.train.trainable == "backbone"
    if images or end_to_end:
        described.check_images(str(run))
    backbones: list[Any] = []
    if end_to_end:
        backbones = described.new_backbones(framework)
    elif images:
        place_of_models = target.folder_of(models or config.data.models, config)
        backbones = described.open_backbones(framework, place_of_models)
    start = {n.removeprefix("model."): a for n, a in arrays.items() if n.startswith("model.")}
    sizes = sizes_of(start, config, run)
    # Before anything of these sizes is made: a config may ask for any.
    check_arrays(start, model_shapes(config, sizes), f"{run}: its checkpoint and config.yaml")
    if (len(described.domains), len(described.classes)) != (sizes.sources, sizes.classes):
        raise UserError(
            f"{run}: model.json names {len(described.domains)} sources and "
            f"{len(described.classes)} classes, the checkpoint has {sizes.sources} and "
            f"{sizes.classes}"
        )
    engine = framework.make_engine(config, sizes, start, backbones if end_to_end else None)
    weights = {n: a for n, a in arrays.items() if not n.startswith("momentum.")}
    load_into(engine, weights, folder.checkpoint("best" if best else "last"))
    return Adapted(config, described, engine, backbones)


def folder_of(run: Path) -> RunFolder:
    if not (run / "config.yaml").is_file():
        raise UserError(f"{run}: holds no run (config.yaml is missing)")
    folder = RunFolder(run, from_tree(read_yaml(run / "config.yaml"), str(run / "config.yaml")))
    if not folder.checkpoint().is_file():
        raise UserError(f"{run}: has no weights yet; `train --resume {run}` goes on with it")
    lines = read_lines(run / "results.jsonl")
    check_lines(lines, run / "results.jsonl")
    if not lines or lines[-1]["kind"] != "final":
        raise UserError(f"{run}: not finished; `train --resume {run}` goes on with it")
    return folder


def sizes_of(arrays: dict[str, np.ndarray], config: Config, run: Path) -> Sizes:
    try:
        N, R, D = arrays["bottlenecks.weight"].shape
        C = arrays["classifiers.bias"].shape[1]
        if 0 in (N, R, D, C):
            raise ValueError
    except (KeyError, ValueError, IndexError):
        raise UserError(f"{run}: its checkpoint holds no adapted model") from None
    return Sizes(N, C, R, D, config.attention.heads, config.attention.width)
