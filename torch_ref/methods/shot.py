"""SHOT (Liang et al., ICML 2020) on every source by itself; their probabilities are averaged."""

import numpy as np
import torch

from torch_ref.losses import cross_entropy
from torch_ref.methods.plugged import Model, Objective, Plugged
from torch_ref.quick import im_loss


class AveragedModel(Model):
    """Sources never meet in training; y is the logarithm of their mean probability."""

    def mix(self, w, own):
        p = torch.bmm(w[:, None], torch.softmax(own, -1)).squeeze(1)
        return torch.log(p.clamp(min=1e-30))


class EachSource(Objective):
    """The sum of every source's own loss: their parameters are apart, so they train apart."""

    def __init__(self, config, sizes):
        super().__init__(config, sizes, AveragedModel)

    def forward(self, raw, memory, learned, centers, products, penalty):
        _, own, _, alpha, w, y = self.model(self.backbones(raw), learned)
        B, N, C = own.shape
        # The mean over all B*N outputs, N times: the sum of the sources' means.
        ce = N * cross_entropy(own.reshape(B * N, C), memory.reshape(B * N), self.smoothing)
        im = im_loss(own, self.epsilon).sum()
        loss = self.gamma * ce + im
        return loss, (ce, im, loss * 0.0, y.argmax(1), alpha, w, y)


class Shot(Plugged):
    def objective_of(self, config, sizes):
        return EachSource(config, sizes)

    def relabel(self, bank, size, epoch):
        """Labels (M,N), each source's own."""
        _, labels = self.own_labels(bank, size)
        return labels.astype(np.int64)
