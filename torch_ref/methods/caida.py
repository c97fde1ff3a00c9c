"""CAiDA (Dong et al., NeurIPS 2021): confident anchors, and outputs that agree within a class."""

import numpy as np
import torch

from ms_biaten.spec.anchors import anchored_labels
from torch_ref.methods.losses import consistency_loss
from torch_ref.methods.plugged import Objective, Plugged
from torch_ref.pseudo_label import mixed_feature


class Consistent(Objective):
    """gamma CE + L_IM + consistency L_crc; labels come ready."""

    def __init__(self, config, sizes):
        super().__init__(config, sizes)
        self.scale = config.loss.consistency

    def further(self, phi, own, w, labels):
        return consistency_loss(w[:, :, None] * own, labels)


class Caida(Plugged):
    term = "consistency"

    def objective_of(self, config, sizes):
        return Consistent(config, sizes)

    def relabel(self, bank, size, epoch):
        """Labels (M,) from the mixed outputs, features and backbone features of all samples."""
        p, mixed, raws = [], [], []
        for raw in bank.chunks(size):
            phi, _, _, _, w, y = self.predict(raw)
            p.append(torch.softmax(y, -1).cpu().numpy())
            mixed.append(mixed_feature(phi, w).cpu().numpy())
            raws.append((w.cpu().numpy()[:, :, None] * raw).sum(1))
        rng = np.random.default_rng([self.config.run.seed, epoch, 0xCA1D])
        labels = anchored_labels(*(np.concatenate(x) for x in (p, mixed, raws)), rng)
        return labels.astype(np.int64)
