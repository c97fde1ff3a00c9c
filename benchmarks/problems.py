"""The sizes that are measured, and random numbers of these sizes."""

from dataclasses import dataclass, replace

import numpy as np

from ms_biaten.spec.bank import Bank
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.methods import initial_arrays
from ms_biaten.spec.shapes import Sizes
from ms_biaten.spec.weights import source_shapes, stack_sources

SIZES = {  # sources, classes; widths, heads and batch are those of the config
    "domainnet": (5, 345),
    "office_home": (3, 65),
    "office_caltech": (3, 10),
}


@dataclass(frozen=True)
class Problem:
    """A config at one size, with the weights that every side starts from."""

    config: object
    sizes: Sizes
    seed: int = 0

    @classmethod
    def of(cls, name, method, settings=None, sources=None, classes=None, profile="official"):
        """`official` is what the authors' release computes: the profile for all sides."""
        config = load_config(
            name,
            target=None,
            profile=profile,
            overrides=[],
            settings={"method.name": method, **(settings or {})},
        )
        known_sources, known_classes = SIZES[name]
        sizes = Sizes.of(config, sources or known_sources, classes or known_classes)
        return cls(config, sizes)

    def arrays(self):
        rng = np.random.default_rng(self.seed)
        shapes = source_shapes(self.sizes.raw, self.sizes.width, self.sizes.classes)
        heads = [
            {name: start(rng, name, shape) for name, shape in shapes.items()}
            for _ in range(self.sizes.sources)
        ]
        return {**stack_sources(heads), **initial_arrays(self.config, self.sizes)}

    def bank(self, samples, dtype=np.float32):
        """`samples` random features; as many differ as keeps the making cheap."""
        rng = np.random.default_rng([self.seed, 1])
        shape = (min(samples, 4096), self.sizes.sources, self.sizes.raw)
        drawn = rng.standard_normal(shape, np.float32).astype(dtype)
        features = np.resize(drawn, (samples, *shape[1:])) if samples > len(drawn) else drawn
        return bank_of(features, self.sizes.classes, self.config.target)

    def with_run(self, **settings):
        return replace(self, config=replace(self.config, run=replace(self.config.run, **settings)))


def bank_of(features, classes, target):
    samples, sources = features.shape[:2]
    return Bank(
        target=target,
        domains=tuple(f"source{i}" for i in range(sources)),
        classes=tuple(f"class{i}" for i in range(classes)),
        samples=tuple(f"{i}" for i in range(samples)),
        features=features,
        labels=np.arange(samples) % classes,
    )


def start(rng, name, shape):
    """Positive where a variance or a length is meant."""
    if "var" in name or "weight_g" in name:
        return np.abs(rng.normal(1.0, 0.1, shape)).astype(np.float32)
    return rng.normal(0.0, 0.05, shape).astype(np.float32)
