"""MindSpore as the commands of `spec.commands` see it."""

from ms_biaten.runtime import prepare, versions  # isort: skip  (settles MindSpore's log level)
from ms_biaten.adapt import Adapter

__all__ = ["Adapter", "prepare", "versions"]
