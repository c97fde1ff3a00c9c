"""Where a method's source weights come from: one interface, phi (B,N,D) -> w (B,N), rows sum to 1.

`native` is what the method was published with, `aten` the inter-domain attention of Eq. (9).
"""

import torch
from torch import nn

from torch_ref.attention import GRADIENT, HEADS, Projection, weights_of
from torch_ref.heads import WeightNormLinear

TINY = 1e-16


def spread(w, phi):
    """One w (N,) for every sample of the batch: (B,N)."""
    return w.expand(phi.shape[:2])


def sigmoid_weights(scalars):
    """DECISION: sigmoids of one learned number per source, over their sum."""
    s = torch.sigmoid(scalars)
    return s / (s.sum() + TINY)


def transferability(scores):
    """DATE: scores (B,N,N) of every feature as each source -> its own source's share (B,N)."""
    own = torch.eye(scores.shape[1], dtype=scores.dtype, device=scores.device)
    return (torch.softmax(scores, -1) * own).sum(-1)


def importance(share, prior):
    """DATE: shares (..., N) times the discriminability prior (N,), over their sum."""
    w = share * prior
    return w / (w.sum(-1, keepdim=True) + TINY)


class Equal(nn.Module):
    """SHOT, and the control of the others: every source counts the same."""

    def __init__(self, config, sizes, shapes):
        super().__init__()
        self.even = 1 / sizes.sources

    def forward(self, phi):
        return phi.new_full(phi.shape[:2], self.even)


class Sigmoid(nn.Module):
    """DECISION's own: the same for all samples."""

    def __init__(self, config, sizes, shapes):
        super().__init__()
        self.scalars = nn.Parameter(torch.zeros(shapes["weights.scalars"]))

    def forward(self, phi):
        return spread(sigmoid_weights(self.scalars), phi)


class Softmax(nn.Module):
    """CAiDA's own: a linear layer on one-hot source codes is one learned number per source."""

    def __init__(self, config, sizes, shapes):
        super().__init__()
        self.scalars = nn.Parameter(torch.zeros(shapes["weights.scalars"]))

    def forward(self, phi):
        return spread(torch.softmax(self.scalars, -1), phi)


class Importance(nn.Module):
    """DATE's own: how much features look like their own source's, times the prior.

    Averaged over the batch in training and over the whole target in evaluation (`share`): a
    prediction is not to depend on its neighbours in a batch.
    """

    def __init__(self, config, sizes, shapes):
        super().__init__()
        self.domain = WeightNormLinear(sizes.width, sizes.sources)
        self.share = nn.Parameter(torch.zeros(shapes["weights.share"]), requires_grad=False)
        self.prior = nn.Parameter(torch.zeros(shapes["weights.prior"]), requires_grad=False)

    def forward(self, phi):
        share = transferability(self.domain(phi)).mean(0) if self.training else self.share
        return spread(importance(share, self.prior), phi)


class Aten(nn.Module):
    """Eq. (9): every sample's own."""

    def __init__(self, config, sizes, shapes):
        super().__init__()
        self.heads, self.temperature = sizes.heads, config.attention.temperature
        self.reduce_heads = HEADS[config.profile.heads]
        self.gradient = GRADIENT[config.method.gradient]
        self.feature = Projection(*(shapes[f"weights.feature.{k}"] for k in ("weight", "bias")))
        self.query = Projection(*(shapes[f"weights.query.{k}"] for k in ("weight", "bias")))

    def forward(self, phi):
        return self.beta(phi)

    def beta(self, phi):
        return weights_of(self, phi)


class AtenTimesPrior(Aten):
    """DATE with ATEN in place of what it learns: beta times the prior."""

    def __init__(self, config, sizes, shapes):
        super().__init__(config, sizes, shapes)
        self.prior = nn.Parameter(torch.zeros(shapes["weights.prior"]), requires_grad=False)

    def forward(self, phi):
        return importance(self.beta(phi), self.prior)


WEIGHTS = {
    "equal": Equal,
    "sigmoid": Sigmoid,
    "softmax": Softmax,
    "importance": Importance,
    "aten": Aten,
    "aten_times_prior": AtenTimesPrior,
}
