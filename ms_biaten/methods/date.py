"""DATE (Han et al., 2023): weights from how sources look on the target, known before training."""

import numpy as np
from mindspore import ops

from ms_biaten import ranks
from ms_biaten.methods.clustering import unit_features
from ms_biaten.methods.decision import Decision
from ms_biaten.methods.losses import diversity_loss
from ms_biaten.methods.plugged import MixedLabels
from ms_biaten.methods.weights import transferability
from ms_biaten.spec.habitat import discriminability


class Diverse(MixedLabels):
    """gamma CE + L_IM + diversity L_dc, which trains DATE's own domain classifier."""

    def __init__(self, config, sizes):
        super().__init__(config, sizes)
        self.scale = config.loss.diversity

    def further(self, phi, own, w, labels):
        weights = self.model.weights
        return diversity_loss(weights.domain(phi), weights.prior)


class Date(Decision):
    term = "diversity"

    def __init__(self, config, sizes, arrays, backbones=None):
        super().__init__(config, sizes, arrays, backbones)
        self.features = unit_features

    def objective_of(self, config, sizes):
        return (Diverse if config.method.weights == "native" else MixedLabels)(config, sizes)

    def survey(self, bank, size, survey):
        """Before the outputs: the prior, once, and the shares of the whole target."""
        weights = self.model.weights
        if hasattr(weights, "prior") and not weights.prior.asnumpy().any():
            ops.assign(weights.prior, self.tensor(self.measure_prior(bank, size)))
        if hasattr(weights, "share"):
            total = 0.0
            for raw in bank.chunks(size):
                phi, *_ = self.predict(raw)
                total = total + transferability(weights.domain(phi)).sum(0)
            ops.assign(weights.share, ranks.total(total) / ranks.count(len(bank)))
        super().survey(bank, size, survey)

    def measure_prior(self, bank, size):
        """Density over uncertainty of each source's neighbourhoods on the target, summing to 1."""
        features, labels = map(ranks.gathered, self.own_labels(bank, size))
        scores = [
            discriminability(features[:, i], labels[:, i], self.sizes.classes)
            for i in range(self.sizes.sources)
        ]
        return (np.array(scores) / np.sum(scores)).astype(np.float32)
