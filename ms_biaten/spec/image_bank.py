"""A target seen through backbones that are trained, too: images drawn anew, features made anew.

Training sees a new random crop and flip of every image in every epoch. All that looks at the whole
target (surveys, pseudo labels) reads the features of the centre crops, computed once an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ms_biaten.spec import guard
from ms_biaten.spec.bank import Bank
from ms_biaten.spec.decoding import decoded, in_batches
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.images import (
    BadImageError,
    Transform,
    center_view,
    drawn_view,
    read_image,
)
from ms_biaten.spec.lists import ImageList, listed


@dataclass(frozen=True)
class ImageBank(Bank):
    images: ImageList = field(default_factory=lambda: ImageList(Path(), ()))
    transform: Transform = field(default_factory=Transform)
    seed: int = 0
    workers: int = 0
    size: int = 64  # images at once through the backbones

    @classmethod
    def of(
        cls, bank: Bank, root: Path, transform: Transform, seed: int, workers: int, size: int
    ) -> ImageBank:
        """The samples of a bank as images below `root`; its features are made anew."""
        images = listed(bank.samples, root, "data.images")
        same = {f.name: getattr(bank, f.name) for f in fields(Bank)}
        same["features"] = np.zeros(bank.features.shape, np.float32)
        return cls(
            **same, images=images, transform=transform, seed=seed, workers=workers, size=size
        )

    def batches(
        self, rows: Iterable[np.ndarray], epoch: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        def draw(row: int) -> np.ndarray:
            rng = np.random.default_rng([self.seed, epoch, row, 0xD2A])
            return drawn_view(self.read(row), self.transform, rng)

        parts = [batch.tolist() for batch in rows]
        for part, views in zip(parts, decoded(parts, draw, self.workers), strict=True):
            yield np.asarray(part), np.stack(views)

    def refresh(self, extract: Callable[[np.ndarray], np.ndarray]) -> None:
        def center(row: int) -> np.ndarray:
            return center_view(self.read(row), self.transform)

        done = 0
        with tqdm(total=len(self), desc="features", unit="image", leave=False, disable=None) as bar:
            for views in decoded(in_batches(0, len(self), self.size), center, self.workers):
                made = extract(np.stack(views))
                guard.check_features(made, done, self)
                self.features[done : done + len(made)] = made
                done += len(made)
                bar.update(len(made))

    def read(self, row: int):  # type: ignore[no-untyped-def]  # a Pillow image
        try:
            return read_image(self.images.path(row))
        except BadImageError as error:
            raise UserError(f"{error}; it could be read when the bank was made") from None
