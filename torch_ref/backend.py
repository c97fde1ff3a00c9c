"""PyTorch as the commands of `spec.commands` see it."""

from ms_biaten.spec.workers import Workers
from torch_ref.adapt import Adapter
from torch_ref.backbones import arrays_of, make_backbone, width_of
from torch_ref.export import EXPORTED, export, run_exported
from torch_ref.extract import Extractor
from torch_ref.importers import convert_backbone as convert
from torch_ref.importers import load_source_model, open_backbone
from torch_ref.methods import METHODS
from torch_ref.pretrain import Trainer, new_backbone
from torch_ref.runtime import prepare, versions

__all__ = [
    "BACKBONE_FILES",
    "EXPORTED",
    "Extractor",
    "Trainer",
    "arrays_of",
    "convert",
    "export",
    "load_source_model",
    "make_backbone",
    "make_engine",
    "new_backbone",
    "open_backbone",
    "prepare",
    "run_exported",
    "versions",
    "width_of",
    "workers",
]

BACKBONE_FILES = (".safetensors",)  # what `convert` writes
workers = Workers  # one process: this side has no distributed training


def make_engine(config, sizes, arrays, backbones=None):
    """The engine of the config's method, with these weights; backbones, where they are trained."""
    return METHODS.get(config.method.name, Adapter)(config, sizes, arrays, backbones)
