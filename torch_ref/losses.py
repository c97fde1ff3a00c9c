"""Eqs. (5), (6), (15), (16). Shapes: B batch, N sources, C classes; all inputs are logits."""

import torch
import torch.nn.functional as F


def im_loss(logits, epsilon):
    """Eq. (6): entropy of each sample minus entropy of the batch mean; (B,...,C) -> (...)."""
    p = torch.softmax(logits, -1)
    confident = -(p * torch.log(p + epsilon)).sum(-1).mean(0)
    mean = p.mean(0)  # the minus that the paper prints before p-bar is a misprint
    diverse = -(mean * torch.log(mean + epsilon)).sum(-1)
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
    return im_loss(torch.cat(choice(assembled, own), 1), epsilon).sum()


def cross_entropy(logits, labels, smoothing):
    """Mean over the batch, labels smoothed."""
    return F.cross_entropy(logits, labels, label_smoothing=smoothing)


def inter_loss(ce, im, ce_weight, im_weight):
    """Eq. (15): gamma CE + L_IM of the ensemble; im_weight is 1, or 0 in an ablation."""
    return ce_weight * ce + im_weight * im


def total_loss(inter, intra, intra_weight):
    """Eq. (16): L = L_inter + lambda L_intra."""
    return inter + intra_weight * intra
