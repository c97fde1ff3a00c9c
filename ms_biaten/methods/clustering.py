"""Pseudo labels of the SHOT family: cosine clustering around each source's own predictions.

Shapes: B samples, N sources, C classes, K feature width.
"""

from mindspore import ops

from ms_biaten.attention import unit


def unit_features(phi):
    """DATE: features of length 1."""
    return unit(phi)


def unit_features_with_one(phi):
    """SHOT, DECISION, CAiDA: [phi, 1], scaled to length 1."""
    return unit(ops.cat((phi, ops.ones((*phi.shape[:-1], 1), phi.dtype)), -1))


def one_hot(labels, classes):
    """labels (...) -> (..., C)."""
    return ops.one_hot(labels.astype("int32"), classes).astype("float32")


def unpredicted(counts):
    """counts (N,C) of a source's predictions -> so much that such a class is never nearest."""
    return 1e30 * (counts == 0).astype(counts.dtype)


def cosine_labels(features, mu, penalty):
    """Each source's nearest of its own centroids mu (N,C,K): (B,N); features of length 1."""
    similar = ops.bmm(features.swapaxes(0, 1), unit(mu).swapaxes(1, 2))  # (N,B,C)
    return (similar - penalty.expand_dims(1)).argmax(-1).swapaxes(0, 1)
