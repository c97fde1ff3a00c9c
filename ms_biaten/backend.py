"""MindSpore as the commands of `spec.commands` see it."""

from ms_biaten.runtime import prepare, versions  # isort: skip  (settles MindSpore's log level)
from ms_biaten.adapt import Adapter
from ms_biaten.methods import METHODS

__all__ = ["make_engine", "prepare", "versions"]


def make_engine(config, sizes, arrays):
    """The engine of the config's method, with these weights."""
    return METHODS.get(config.method.name, Adapter)(config, sizes, arrays)
