"""Weights as {name: array}: source heads, the adapted model, and their names in each framework.

One naming for all files and both frameworks, PyTorch's; MindSpore names normalisations
otherwise, and `TORCH_NAMES` says how. Sources are stacked along a leading axis N, or, for
batch normalisation, one behind the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.orders import first_difference, order_of
from ms_biaten.spec.reading import named_arrays, read_tensors

Arrays = dict[str, np.ndarray]
SHOWN = 8  # faults in one message

# MindSpore's name for a tensor of a normalisation -> PyTorch's.
TORCH_NAMES = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def torch_name(name: str) -> str:
    """The name in files and in PyTorch of a parameter of the MindSpore model."""
    owner, dot, last = name.rpartition(".")
    return owner + dot + TORCH_NAMES.get(last, last)


def source_shapes(raw_width: int, width: int, classes: int) -> dict[str, tuple[int, ...]]:
    """The heads of one source on file: Linear + BatchNorm, weight-normed Linear."""
    return {
        "bottleneck.weight": (width, raw_width),
        "bottleneck.bias": (width,),
        "bn.weight": (width,),
        "bn.bias": (width,),
        "bn.running_mean": (width,),
        "bn.running_var": (width,),
        "fc.weight_g": (classes, 1),
        "fc.weight_v": (classes, width),
        "fc.bias": (classes,),
    }


def load_heads(
    folder: Path, domains: Iterable[str], classes: Sequence[str], raw: int, width: int
) -> list[Arrays]:
    """The heads of every source; a width of 0 takes that of the first."""
    heads = []
    for domain in domains:
        path = folder / f"{domain}.safetensors"
        if not path.is_file():
            raise UserError(
                f"no source heads at {path}; set data.sources to the folder that has them"
            )
        arrays, metadata = read_safetensors(path)
        arrays.pop("bn.num_batches_tracked", None)  # a counter of PyTorch's; nothing reads it
        width = width or max(1, arrays.get("bottleneck.bias", np.zeros(1)).size)
        check_arrays(arrays, source_shapes(raw, width, len(classes)), str(path))
        check_stored_classes(path, metadata, classes, "the bank")
        heads.append({name: array.astype(np.float32) for name, array in arrays.items()})
    return heads


def read_safetensors(path: Path) -> tuple[Arrays, dict[str, str]]:
    """The arrays of a file and what it says of itself."""
    return read_tensors(path, lambda file: (dict(named_arrays(file)), file.metadata() or {}))


def read_metadata(path: Path) -> dict[str, str]:
    """What a safetensors file says of itself; nothing for other files."""
    if path.suffix != ".safetensors":
        return {}
    return read_tensors(path, lambda file: file.metadata() or {})


def write_safetensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    # safetensors writes the memory as it lies: a transposed view would be stored wrongly.
    laid_out = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with write_atomically(path) as file:
        file.write(save(laid_out, metadata=metadata))


def check_stored_classes(
    path: Path, metadata: Mapping[str, str], classes: Sequence[str], other: str
) -> None:
    """Heads that say their classes must say those of `other`, in its order."""
    try:
        stored = json.loads(metadata.get("classes", "null"))
    except (ValueError, RecursionError):
        stored = ""
    if stored is None:
        return
    if not isinstance(stored, list) or not all(isinstance(name, str) for name in stored):
        raise UserError(f"{path}: 'classes' in its metadata is not a JSON list of names")
    if stored != list(classes):
        raise UserError(f"{path}: {class_order_fault(stored, classes, other)}")


def class_order_fault(stored: Sequence[str], classes: Sequence[str], other: str) -> str:
    """Where two class orders part: the same names in another order silently swap predictions."""
    if len(stored) != len(classes):
        return f"trained on {len(stored)} classes, {other} has {len(classes)}"
    place, theirs, ours = first_difference(stored, classes)
    known, here = order_of(stored), order_of(classes)
    return (
        f"trained with another class order{f' ({known})' if known else ''}: class {place} is "
        f"'{theirs}' there and '{ours}' in {other}{f' ({here})' if here else ''}; "
        f"extract with {f'--classes {known}' if known else 'the classes of the sources'}"
    )


def check_arrays(
    arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], where: str
) -> None:
    """A bijection of names and shapes with finite numbers, or an error that lists the faults."""
    missing = [f"missing {name} {shapes[name]}" for name in shapes if name not in arrays]
    unexpected = [f"unexpected {name}" for name in arrays if name not in shapes]
    wrong = []
    for name in shapes:
        if name in arrays and arrays[name].shape != tuple(shapes[name]):
            wrong.append(f"{name} is {arrays[name].shape}, expected {tuple(shapes[name])}")
        elif name in arrays and not is_single(arrays[name]):
            wrong.append(f"{name} holds NaN or Inf, or no numbers of single precision")
    # A backbone has hundreds of names: a few faults of each kind tell as much as all of them.
    faults = [f for row in zip_longest(missing, unexpected, wrong) for f in row if f]
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise UserError(f"{where}: {'; '.join(faults[:SHOWN])}{more}")


def is_single(array: np.ndarray) -> bool:
    """Finite numbers, also once they are float32, as all weights are when they are used."""
    if array.dtype.kind not in "fiu":
        return False
    with np.errstate(over="ignore"):
        return bool(np.isfinite(array.astype(np.float32, copy=False)).all())


def copied(arrays: Mapping[str, np.ndarray], into: Arrays | None = None) -> Arrays:
    """Copies, in the memory of `into` where that has an array of the name."""
    if into is None:
        return {name: array.copy() for name, array in arrays.items()}
    for name, array in arrays.items():
        np.copyto(into[name], array)
    return into


def fold_weight_norm(weight_v: np.ndarray, weight_g: np.ndarray) -> np.ndarray:
    """Weight normalisation of a frozen layer: each row of v scaled to the length g."""
    length = np.linalg.norm(weight_v.astype(np.float64), axis=1, keepdims=True)
    return (weight_g * (weight_v / np.maximum(length, 1e-12))).astype(np.float32)


def stack_sources(sources: Iterable[Arrays]) -> Arrays:
    """The heads of all sources as the model's parameters, classifiers folded."""
    heads = list(sources)

    def column(name: str) -> list[np.ndarray]:
        return [head[name] for head in heads]

    folded = [fold_weight_norm(head["fc.weight_v"], head["fc.weight_g"]) for head in heads]
    return {
        "bottlenecks.weight": np.stack([w.T for w in column("bottleneck.weight")]),  # (N,R,D)
        "bottlenecks.bias": np.stack(column("bottleneck.bias"))[:, None],  # (N,1,D)
        "bottlenecks.norm.weight": np.concatenate(column("bn.weight")),  # (N*D,)
        "bottlenecks.norm.bias": np.concatenate(column("bn.bias")),
        "bottlenecks.norm.running_mean": np.concatenate(column("bn.running_mean")),
        "bottlenecks.norm.running_var": np.concatenate(column("bn.running_var")),
        "classifiers.weight": np.stack([w.T for w in folded]),  # (N,D,C)
        "classifiers.bias": np.stack(column("fc.bias")),  # (N,C)
    }
