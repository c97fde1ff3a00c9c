"""MindSpore as the commands of `spec.commands` see it."""

from ms_biaten.runtime import prepare, versions  # isort: skip  (settles MindSpore's log level)
from ms_biaten.adapt import Adapter
from ms_biaten.backbones import arrays_of, make_backbone, save_weights, width_of
from ms_biaten.export import EXPORTED, export, run_exported
from ms_biaten.extract import Extractor
from ms_biaten.importers import load_source_model, open_backbone
from ms_biaten.methods import METHODS
from ms_biaten.pretrain import Trainer, new_backbone
from ms_biaten.ranks import workers
from ms_biaten.spec.config import Config

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

BACKBONE_FILES = (".safetensors", ".ckpt")  # what `convert` writes


def make_engine(config, sizes, arrays, backbones=None):
    """The engine of the config's method, with these weights; backbones, where they are trained."""
    return METHODS.get(config.method.name, Adapter)(config, sizes, arrays, backbones)


def convert(source, output, name, **options):
    """A backbone from a .safetensors or .ckpt file into another."""
    prepare(Config())
    save_weights(make_backbone(name, weights=source, **options), output)
