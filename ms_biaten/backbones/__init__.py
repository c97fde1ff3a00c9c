"""Backbones in MindSpore: images (B,3,H,W) -> raw features (B,R), by the names of timm."""

from ms_biaten.backbones.freezing import freeze, unfreeze
from ms_biaten.backbones.registry import make_backbone, width_of
from ms_biaten.backbones.weights import arrays_of, load_weights, save_weights

__all__ = [
    "arrays_of",
    "freeze",
    "load_weights",
    "make_backbone",
    "save_weights",
    "unfreeze",
    "width_of",
]
