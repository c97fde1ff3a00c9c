"""Eqs. (5), (6), (15), (16). Shapes: B batch, N sources, C classes; all inputs are logits."""

from mindspore import ops

from ms_biaten import ranks
from ms_biaten.quick import CROSS_ENTROPY, smoothed


def im_loss(logits, epsilon):
    """Eq. (6): entropy of each sample minus entropy of the batch mean; (B,...,C) -> (...)."""
    p = ops.softmax(logits, -1)
    confident = -ranks.batch_mean((p * ops.log(p + epsilon)).sum(-1))
    mean = ranks.batch_mean(p)  # the minus that the paper prints before p-bar is a misprint
    diverse = -(mean * ops.log(mean + epsilon)).sum(-1)
    return confident - diverse


def ensemble_only(assembled, own):
    """Paper: the assembled outputs y~ alone."""
    return (assembled,)


def ensemble_and_own(assembled, own):
    """Released code: each source's own output y^ii as well."""
    return assembled, own


INTRA_LOSS = {"ensemble": ensemble_only, "ensemble_and_own": ensemble_and_own}


def intra_loss(assembled, own, epsilon, choice):
    """Eq. (5): summed over the sources; assembled and own (B,N,C)."""
    return im_loss(ops.cat(choice(assembled, own), 1), epsilon).sum()


def cross_entropy(logits, labels, smoothing):
    """Mean over the batch, labels smoothed. Not MindSpore's own, which is some forty kernels."""
    return CROSS_ENTROPY(logits, smoothed(labels, logits.shape[-1], smoothing, logits.dtype))[0]


def inter_loss(ce, im, ce_weight, im_weight):
    """Eq. (15): gamma CE + L_IM of the ensemble; im_weight is 1, or 0 in an ablation."""
    return ce_weight * ce + im_weight * im


def total_loss(inter, intra, intra_weight):
    """Eq. (16): L = L_inter + lambda L_intra."""
    return inter + intra_weight * intra
