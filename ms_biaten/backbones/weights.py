"""Weights of a backbone, from and to files: .safetensors, which both frameworks read, and .ckpt."""

from pathlib import Path
from tempfile import TemporaryDirectory

import mindspore as ms
import numpy as np

from ms_biaten.backbones.stochastic_depth import is_drawn
from ms_biaten.spec.backbone_files import check_model_name, metadata_of
from ms_biaten.spec.console import say
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.renaming import to_timm
from ms_biaten.spec.weights import (
    check_arrays,
    read_safetensors,
    torch_name,
    write_safetensors,
)


def parameters_of(model):
    """The model's parameters by timm's names."""
    own = model.parameters_and_names()
    return {torch_name(name): p for name, p in own if not is_drawn(name)}


def arrays_of(model):
    """Copies of all weights by timm's names."""
    return {name: p.asnumpy().copy() for name, p in parameters_of(model).items()}


def load_weights(model, path):
    """Fills the model from a file; every name and shape must fit."""
    path = Path(path)
    arrays, metadata = reader_of(path)(path)
    check_model_name(path, metadata, model.backbone_name)
    own = parameters_of(model)
    arrays = to_timm(arrays, own, model.width, path, say)
    shapes = {name: tuple(p.shape) for name, p in own.items()}
    check_arrays(arrays, shapes, f"{path}: not the weights of {model.backbone_name}")
    for name, parameter in own.items():
        parameter.set_data(ms.Tensor(arrays[name].astype(np.float32)))


def save_weights(model, path):
    """Writes all weights; the ending of the name decides the kind of file."""
    path = Path(path)
    if path.suffix not in WRITERS:
        raise UserError(f"{path}: backbones are written as {' or '.join(WRITERS)}")
    WRITERS[path.suffix](model, path)


def reader_of(path):
    if not path.is_file():
        raise UserError(f"no weights at {path}")
    if path.suffix not in READERS:
        raise UserError(
            f"{path}: MindSpore reads {' and '.join(READERS)}; `python -m torch_ref convert` makes "
            "a .safetensors file of other checkpoints"
        )
    return READERS[path.suffix]


def read_ckpt(path):
    """A checkpoint of MindSpore, by timm's names; it says nothing of itself."""
    try:
        stored = ms.load_checkpoint(str(path), crc_check=True)
    except Exception as error:  # a damaged file raises whatever its bytes happen to mean
        raise UserError(
            f"{path}: not a MindSpore checkpoint, or damaged or cut short "
            f"({type(error).__name__}); copy it again"
        ) from None
    return {
        torch_name(name): p.asnumpy() for name, p in stored.items() if hasattr(p, "asnumpy")
    }, {}


def write_arrays(model, path):
    write_safetensors(path, arrays_of(model), metadata_of(model.backbone_name))


def write_ckpt(model, path):
    """MindSpore writes in place and read-only: written aside, the file then takes its name."""
    own = model.parameters_and_names()
    named = [{"name": name, "data": p} for name, p in own if not is_drawn(name)]
    with TemporaryDirectory(dir=path.parent) as aside, write_atomically(path) as file:
        ms.save_checkpoint(named, str(Path(aside) / "weights.ckpt"), crc_check=True)
        file.write((Path(aside) / "weights.ckpt").read_bytes())


READERS = {".safetensors": read_safetensors, ".ckpt": read_ckpt}
WRITERS = {".safetensors": write_arrays, ".ckpt": write_ckpt}
