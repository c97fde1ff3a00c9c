"""PyTorch as the commands of `spec.commands` see it."""

from torch_ref.adapt import Adapter
from torch_ref.runtime import prepare, versions

__all__ = ["Adapter", "prepare", "versions"]
