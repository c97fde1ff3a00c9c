"""MindSpore as the commands of `spec.commands` see it."""

from ms_biaten.runtime import prepare, versions  # isort: skip  (settles MindSpore's log level)
from ms_biaten.adapt import Adapter
from ms_biaten.backbones import make_backbone, save_weights
from ms_biaten.methods import METHODS
from ms_biaten.spec.config import Config

__all__ = ["BACKBONE_FILES", "convert", "make_engine", "prepare", "versions"]

BACKBONE_FILES = (".safetensors", ".ckpt")  # what `convert` writes


def make_engine(config, sizes, arrays):
    """The engine of the config's method, with these weights."""
    return METHODS.get(config.method.name, Adapter)(config, sizes, arrays)


def convert(source, output, name, **options):
    """A backbone from a .safetensors or .ckpt file into another."""
    prepare(Config())
    save_weights(make_backbone(name, weights=source, **options), output)
