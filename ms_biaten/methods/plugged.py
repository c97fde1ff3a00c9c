"""A method of Eq. (18): sources' outputs mixed by exchangeable weights, one loss, one optimiser."""

import numpy as np
from mindspore import nn, ops

from ms_biaten import ranks
from ms_biaten.attention import ensemble, one_hot_alpha, own_outputs
from ms_biaten.engine import Engine
from ms_biaten.heads import Bottlenecks, Classifiers
from ms_biaten.losses import cross_entropy
from ms_biaten.methods.clustering import (
    cosine_labels,
    one_hot,
    unit_features_with_one,
    unpredicted,
)
from ms_biaten.methods.weights import WEIGHTS
from ms_biaten.pseudo_label import (
    centroids,
    class_distances,
    euclidean_distance,
    nearest_class,
    weighted_sums,
)
from ms_biaten.quick import im_loss
from ms_biaten.spec.methods import weights_name, weights_shapes


class Model(nn.Cell):
    """raw (B,N,R) -> phi, own outputs twice, one-hot alpha, w, y: as Bi-ATEN's model."""

    def __init__(self, config, sizes):
        super().__init__()
        self.bottlenecks = Bottlenecks(sizes)
        self.classifiers = Classifiers(sizes)
        self.weights = WEIGHTS[weights_name(config)](config, sizes, weights_shapes(config, sizes))

    def construct(self, raw, learned):
        phi = self.bottlenecks(raw)
        own = own_outputs(phi, self.classifiers.weight, self.classifiers.bias)
        w = self.weights(phi)
        return phi, own, own, one_hot_alpha(phi), w, self.mix(w, own)

    def mix(self, w, own):
        """Weighted logits: y (B,C)."""
        return ensemble(w, own)


def batch_mean(w):
    """The weights of the pseudo labels' mixture as published: the batch's mean, for all."""
    return ops.broadcast_to(ranks.batch_mean(w).expand_dims(0), w.shape)


def per_instance(w):
    """Bi-ATEN's way: every sample's own weights."""
    return w


LABEL_MIX = {"batch_mean": batch_mean, "per_instance": per_instance}


class Objective(nn.Cell):
    """gamma CE(y, label) + L_IM(y); a method adds its further term."""

    def __init__(self, config, sizes, model=Model):
        super().__init__()
        self.backbones = nn.Identity()  # features are given, unless backbones are trained
        self.model = model(config, sizes)
        self.gamma, self.smoothing = config.loss.gamma, config.loss.label_smoothing
        self.epsilon = config.loss.epsilon
        self.scale = 0.0  # of the further term

    def construct(self, raw, memory, learned, centers, products, penalty):
        phi, own, _, alpha, w, y = self.model(self.backbones(raw), learned)
        labels = self.label(memory, ops.stop_gradient(w), centers, products, penalty)
        ce = cross_entropy(y, labels, self.smoothing)
        im = im_loss(y, self.epsilon)
        further = self.further(phi, own, w, labels)
        loss = self.gamma * ce + im + self.scale * further
        return loss, (ce, im, further, labels, alpha, w, y)

    def label(self, memory, w, centers, products, penalty):
        """Labels that came ready."""
        return memory

    def further(self, phi, own, w, labels):
        """The method's own term; none by default."""
        return ops.zeros_like(w[0, 0])


class MixedLabels(Objective):
    """DECISION, DATE: nearest of the centroids, both sides mixed with this step's weights."""

    def __init__(self, config, sizes):
        super().__init__(config, sizes)
        self.label_mix = LABEL_MIX[config.method.label_mix]

    def label(self, memory, w, centers, products, penalty):
        omega = self.label_mix(w)
        return nearest_class(
            class_distances(memory, omega, centers, products, penalty, euclidean_distance)
        )


class Plugged(Engine):
    """The engine of these methods: `look` and `refine` are the rounds of SHOT's clustering."""

    def __init__(self, config, sizes, arrays, backbones=None):
        self.features = unit_features_with_one
        super().__init__(config, sizes, arrays, self.objective_of(config, sizes), backbones)

    def look(self, bank, size):
        """One pass: features (M,N,K), soft centroids (N,C,K), predictions per class (N,C)."""
        kept, sums, mass, counts = [], 0.0, 0.0, 0.0
        for raw in bank.chunks(size):
            phi, own, *_ = self.predict(raw)
            features = self.features(phi)
            more, weight = weighted_sums(ops.softmax(own, -1), features)
            sums, mass = sums + more, mass + weight
            counts = counts + one_hot(own.argmax(-1), own.shape[2], own.dtype).sum(0)
            kept.append(features.asnumpy())
        mu = centroids(ranks.total(sums), ranks.total(mass))
        return np.concatenate(kept), mu, ranks.total(counts)

    def labels_of(self, features, size, mu, penalty):
        """Every sample's nearest centroid in each source: (M,N)."""
        parts = [
            cosine_labels(self.tensor(features[start : start + size]), mu, penalty).asnumpy()
            for start in range(0, len(features), size)
        ]
        return np.concatenate(parts)

    def own_labels(self, bank, size):
        """SHOT's two rounds over the classes that a source predicts: features, labels (M,N)."""
        features, mu, counts = self.look(bank, size)
        labels = self.labels_of(features, size, mu, unpredicted(counts))
        sums, counts = self.refine(features, size, labels, counts.shape[1])
        mu = centroids(sums, counts)
        return features, self.labels_of(features, size, mu, unpredicted(counts))

    def refine(self, features, size, labels, classes):
        """Centroids of hard labels (M,N): sums (N,C,K) and counts (N,C)."""
        sums = counts = 0.0
        for start in range(0, len(features), size):
            rows = slice(start, start + size)
            near = self.tensor(features[rows])
            hard = one_hot(self.tensor(labels[rows]), classes, near.dtype)
            more, count = weighted_sums(hard, near)
            sums, counts = sums + more, counts + count
        return ranks.total(sums), ranks.total(counts)
