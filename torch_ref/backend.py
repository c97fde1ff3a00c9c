"""PyTorch as the commands of `spec.commands` see it."""

from torch_ref.adapt import Adapter
from torch_ref.importers import convert_backbone as convert
from torch_ref.methods import METHODS
from torch_ref.runtime import prepare, versions

__all__ = ["BACKBONE_FILES", "convert", "make_engine", "prepare", "versions"]

BACKBONE_FILES = (".safetensors",)  # what `convert` writes


def make_engine(config, sizes, arrays):
    """The engine of the config's method, with these weights."""
    return METHODS.get(config.method.name, Adapter)(config, sizes, arrays)
