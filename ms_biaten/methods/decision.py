"""DECISION (Ahmed et al., CVPR 2021): one learned weight per source, mixed pseudo labels."""

from mindspore import ops

from ms_biaten.methods.plugged import MixedLabels, Plugged
from ms_biaten.pseudo_label import centroids, settled


class Decision(Plugged):
    """Centroids of each source's hard labels; a step mixes them, and the features, with its w."""

    def objective_of(self, config, sizes):
        return MixedLabels(config, sizes)

    def relabel(self, bank, size, epoch):
        """Two rounds per source: soft centroids, labels, hard centroids; keeps the features."""
        features, mu, counts = self.look(bank, size)
        labels = self.labels_of(features, size, mu, ops.zeros_like(counts))
        sums, counts = self.refine(features, size, labels, counts.shape[1])
        self.clusters = settled(centroids(sums, counts), counts)
        return features
