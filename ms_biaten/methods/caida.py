"""CAiDA (Dong et al., NeurIPS 2021): confident anchors, and outputs that agree within a class."""

import numpy as np
from mindspore import ops

from ms_biaten import ranks
from ms_biaten.methods.losses import consistency_loss
from ms_biaten.methods.plugged import Objective, Plugged
from ms_biaten.pseudo_label import mixed_feature
from ms_biaten.spec.anchors import anchored_labels


class Consistent(Objective):
    """gamma CE + L_IM + consistency L_crc; labels come ready."""

    def __init__(self, config, sizes):
        super().__init__(config, sizes)
        self.scale = config.loss.consistency

    def further(self, phi, own, w, labels):
        return consistency_loss(w.expand_dims(2) * own, labels)


class Caida(Plugged):
    term = "consistency"

    def objective_of(self, config, sizes):
        return Consistent(config, sizes)

    def relabel(self, bank, size, epoch):
        """Labels (M,) from the mixed outputs, features and backbone features of all samples."""
        p, mixed, raws = [], [], []
        for raw in bank.chunks(size):
            phi, _, _, _, w, y = self.predict(raw)
            p.append(ops.softmax(y, -1).asnumpy())
            mixed.append(mixed_feature(phi, w).asnumpy())
            raws.append((w.asnumpy()[:, :, None] * raw).sum(1))
        rng = np.random.default_rng([self.config.run.seed, epoch, 0xCA1D])
        # Anchors are sought among all samples: every worker has them all, and labels its own.
        everyone = [ranks.gathered(np.concatenate(x)) for x in (p, mixed, raws)]
        own = ranks.workers().span(len(everyone[0]))
        return anchored_labels(*everyone, rng)[own].astype(np.int32)
