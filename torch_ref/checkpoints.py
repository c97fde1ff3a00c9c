"""Checkpoint files as {name: array}: safetensors, and pickles that hold nothing but tensors.

A pickle can run any code while it is read. `weights_only` reads tensors and plain containers and
stops at everything else before it runs.
"""

import re
import warnings
import zipfile
from pathlib import Path

import torch
from safetensors import safe_open

from ms_biaten.spec.errors import UserError
from torch_ref.knots import is_knotted

WRAPPERS = ("model", "state_dict")  # {'model': tensors, 'epoch': 3, ...} of training scripts


def read_checkpoint(path):
    """The tensors of a file by name, as arrays on the CPU; floating point as float32."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"no checkpoint at {path}")
    tree = read_safetensors(path) if path.suffix == ".safetensors" else read_pickle(path)
    return {name: as_array(tensor) for name, tensor in unwrap(tree, path).items()}


def read_safetensors(path):
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # a damaged header raises whatever its bytes happen to mean
        raise UserError(f"{path}: not a readable safetensors file ({error})") from None


def read_pickle(path):
    refuse_packed(path)
    if is_knotted(path):
        raise UserError(f"{path}: would take hours to read; save the state_dict anew by torch.save")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what cannot be read is told below
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to mean
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        if foreign:
            raise UserError(
                f"{path}: holds {foreign[1]}, which cannot be loaded without running code of the "
                "file; it was not run. Expected tensors alone: save the state_dict by itself"
            ) from None
        raise UserError(
            f"{path}: not a checkpoint of tensors, or damaged or cut short "
            f"({type(error).__name__}); copy it again, or save the state_dict anew by torch.save"
        ) from None


def refuse_packed(path):
    """torch.save packs nothing: an archive that unpacks to more than itself is a bomb."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except Exception:  # no archive: an older kind of checkpoint, or damaged, and told so below
        return
    if size > path.stat().st_size:
        raise UserError(
            f"{path}: would unpack to {size} bytes, perhaps a decompression bomb; save the "
            "state_dict anew by torch.save"
        )


def unwrap(tree, path):
    """The {name: tensor} inside the wrappers of training scripts."""
    while isinstance(tree, dict):
        inner = [key for key in WRAPPERS if isinstance(tree.get(key), dict)]
        if len(inner) > 1:
            raise UserError(f"{path}: both {' and '.join(inner)} hold weights; save the one to use")
        if not inner:
            break
        tree = tree[inner[0]]
    if not isinstance(tree, dict):
        raise UserError(f"{path}: holds a {type(tree).__name__}, expected a dict of tensors")
    others = [f"{k!r} ({type(v).__name__})" for k, v in tree.items() if not is_named_tensor(k, v)]
    if others or not tree:
        what = ", ".join(others[:8]) or "nothing"
        raise UserError(f"{path}: holds {what}, expected a dict of tensors")
    return tree


def is_named_tensor(name, value):
    """Neither sparse nor quantised: those have no plain array. Nor spread from a few numbers."""
    if not isinstance(name, str) or not torch.is_tensor(value):
        return False
    if value.layout is not torch.strided or value.is_quantized or value.device.type != "cpu":
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def as_array(tensor):
    tensor = tensor.detach()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()
