"""Pseudo labels of the SHOT family: cosine clustering around each source's own predictions.

Shapes: B samples, N sources, C classes, K feature width.
"""

import torch
from torch import nn

from torch_ref.attention import unit


def unit_features(phi):
    """DATE: features of length 1."""
    return unit(phi)


def unit_features_with_one(phi):
    """SHOT, DECISION, CAiDA: [phi, 1], scaled to length 1."""
    return unit(torch.cat((phi, phi.new_ones(*phi.shape[:-1], 1)), -1))


def one_hot(labels, classes):
    """labels (...) -> (..., C)."""
    return nn.functional.one_hot(labels.long(), classes).float()


def unpredicted(counts):
    """counts (N,C) of a source's predictions -> so much that such a class is never nearest."""
    return 1e30 * (counts == 0).to(counts.dtype)


def cosine_labels(features, mu, penalty):
    """Each source's nearest of its own centroids mu (N,C,K): (B,N); features of length 1."""
    similar = torch.bmm(features.transpose(0, 1), unit(mu).transpose(1, 2))  # (N,B,C)
    return (similar - penalty[:, None]).argmax(-1).transpose(0, 1)
