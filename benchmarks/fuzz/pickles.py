"""Pickles and archives that would do something when they are read, and damaged honest ones."""

import io
import os
import pickle
import zipfile
from collections import OrderedDict

import numpy as np
import torch

from benchmarks.fuzz.mutators import CANARY, damaged


class Hostile:
    """Runs a command while it is read by a reader that runs what a pickle says."""

    def __reduce__(self):
        return (os.system, (f"touch {CANARY}",))


class Opener:
    def __reduce__(self):
        return (open, (CANARY, "w"))


class Evaluated:
    def __reduce__(self):
        return (eval, (f"open({CANARY!r}, 'w')",))


def knot(depth=40):
    """A few bytes a level, and twice the work of the level below."""
    tree = (1,)
    for _ in range(depth):
        tree = (tree, tree)
    return tree


def torch_bytes(tree, zipped=True):
    buffer = io.BytesIO()
    torch.save(tree, buffer, _use_new_zipfile_serialization=zipped)
    return buffer.getvalue()


def damaged_pickle(rng, content):
    kind = rng.random()
    if kind < 0.35:
        return damaged(rng, content)
    if kind < 0.5:
        return damaged_archive(rng, content)
    tensors = torch.load(io.BytesIO(content), weights_only=True)
    name = rng.choice(list(tensors))
    tree = OrderedDict(tensors)
    if kind < 0.7:
        hostile = rng.choice((Hostile, Opener, Evaluated))()
        tree = rng.choice(
            (
                hostile,
                {name: hostile},
                {**tree, "x": hostile},
                {"model": [hostile]},
                (tree, hostile),
            )
        )
    else:
        tree[name] = rng.choice(ODD)(tensors[name])
        tree = rng.choice((tree, {"model": tree}, {"model": tree, "state_dict": tree}, [tree]))
    if rng.random() < 0.3:
        return pickle.dumps(tree, protocol=rng.choice((0, 2, 4)))
    made = torch_bytes(tree, rng.random() < 0.6)
    return damaged(rng, made) if rng.random() < 0.3 else made


ODD = (
    lambda t: t.double() * 1e300,
    lambda t: t.half(),
    lambda t: t.bfloat16(),
    lambda t: t.to(torch.complex64),
    lambda t: t.bool(),
    lambda t: t.to_sparse(),
    lambda t: t.flatten()[:1].expand(10**9),
    lambda t: t.half().flatten()[:1].expand(10**10),
    lambda t: torch.zeros(0, 5),
    lambda t: t.flatten()[::2],
    lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8),
    lambda t: torch.nn.Parameter(t.float()),
    lambda t: torch.full_like(t, float("nan")),
    lambda t: t.to("meta"),
    lambda t: np.zeros(3),
    lambda t: None,
    lambda t: "text",
    lambda t: [t],
    lambda t: {1: t},
    lambda t: knot(),
)


def damaged_archive(rng, content):
    """The same entries: packed, renamed to lead elsewhere, doubled, damaged or missing."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        names = old.namelist()
        chosen, change = rng.choice(names), rng.choice(("pack", "name", "drop", "bomb", "damage"))
        for name in names:
            part, kept, way = old.read(name), name, zipfile.ZIP_STORED
            if name == chosen and change == "drop":
                continue
            if name == chosen and change == "damage":
                part = damaged(rng, part)
            if name == chosen and change == "name":
                kept = rng.choice(
                    ("../../outside", "/tmp/outside", "archive/../../x", "", "x" * 300)
                )
            if name == chosen and change == "bomb":
                part = b"\0" * (50 << 20)
            if change in ("pack", "bomb"):
                way = zipfile.ZIP_DEFLATED
            new.writestr(zipfile.ZipInfo(kept), part, way)
    return buffer.getvalue()
