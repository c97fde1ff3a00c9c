"""Multi-source-free domain adaptation on MindSpore: Bi-ATEN and ATEN."""

__version__ = "0.1.0"
