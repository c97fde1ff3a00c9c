"""The adapted model, and its update by Eq. (17). `spec.algorithm` runs the loop of Algorithm 1."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from ms_biaten import ranks
from ms_biaten.attention import ATTENTION
from ms_biaten.engine import Engine, filled
from ms_biaten.heads import Bottlenecks, Classifiers
from ms_biaten.losses import INTRA_LOSS
from ms_biaten.pseudo_label import (
    CENTROID_WEIGHT,
    LABEL_DISTANCE,
    centroids,
    class_distances,
    nearest_class,
    settled,
    weighted_sums,
)
from ms_biaten.quick import losses
from ms_biaten.runtime import compiled
from ms_biaten.spec.bank import collected, in_groups
from ms_biaten.spec.schedules import loss_coefficients
from ms_biaten.spec.shapes import attention_shapes, cluster_shapes
from ms_biaten.spec.weights import check_arrays


class Model(nn.Cell):
    """raw (B,N,R) -> phi (B,N,D), own and assembled outputs (B,N,C), alpha, beta, y (B,C)."""

    def __init__(self, config, sizes):
        super().__init__()
        self.bottlenecks = Bottlenecks(sizes)
        self.classifiers = Classifiers(sizes)
        self.attention = ATTENTION[config.method.name](
            config, sizes, attention_shapes(config, sizes)
        )

    def construct(self, raw, learned):
        phi = self.bottlenecks(raw)
        frozen = self.classifiers
        return phi, *self.attention(phi, frozen.weight, frozen.bias, learned)


def remember_labels(engine, seen):
    """Paper: what an epoch keeps of a sample is its label."""
    for group in in_groups(seen, LABELLED):
        yield engine.label(*(ops.cat(parts) for parts in zip(*group, strict=True)))


def remember_features(engine, seen):
    """Released code: an epoch keeps the features (N,D), and every batch labels them anew."""
    return (phi for phi, _ in seen)


def remembered_labels(memory, beta, centers, products, penalty, distance):
    """Paper: memory (B,) is the labels."""
    return memory


def batch_labels(memory, beta, centers, products, penalty, distance):
    """Released code: memory (B,N,D) under this batch's beta."""
    return nearest_class(class_distances(memory, beta, centers, products, penalty, distance))


MEMORY = {"per_epoch": remember_labels, "per_batch": remember_features}
LABEL_REFRESH = {"per_epoch": remembered_labels, "per_batch": batch_labels}


class Objective(nn.Cell):
    """Eqs. (1)-(16) on a batch: L, and what it is made of."""

    def __init__(self, config, sizes):
        super().__init__()
        self.model = Model(config, sizes)
        self.epsilon, self.smoothing = config.loss.epsilon, config.loss.label_smoothing
        self.weights = loss_coefficients(config)
        self.intra_outputs = INTRA_LOSS[config.profile.intra_loss]
        self.label_distance = LABEL_DISTANCE[config.profile.label_distance]
        self.label_refresh = LABEL_REFRESH[config.profile.label_refresh]

    def construct(self, raw, memory, learned, centers, products, penalty):
        _, own, assembled, alpha, beta, y = self.model(raw, learned)
        labels = self.label_refresh(
            memory, ops.stop_gradient(beta), centers, products, penalty, self.label_distance
        )
        settings = self.epsilon, self.smoothing, self.weights, self.intra_outputs
        loss, ce, im, intra = losses(y, assembled, own, labels, *settings)
        return loss, (ce, im, intra, labels, alpha, beta, y)


def nearest_of(distance):
    """Eqs. (12)-(14) by one choice of distance."""

    def nearest(phi, beta, centers, products, penalty):
        distances = class_distances(phi, beta, centers, products, penalty, distance)
        return nearest_class(distances).astype(ms.int32)

    return nearest


LABELLED = 4096  # samples at once, whatever a pass takes: larger products, fewer starts
REMEMBERED = 1 << 24  # features of a survey that the relabelling after it need not compute again


class Adapter(Engine):
    """Eq. (17): attention and bottlenecks minimise L; backbones and classifiers stay frozen."""

    term = "intra"

    def __init__(self, config, sizes, arrays, backbones=None):
        self.centroid_weight = CENTROID_WEIGHT[config.profile.centroid_weight]
        self.remember = MEMORY[config.profile.label_refresh]
        super().__init__(config, sizes, arrays, Objective(config, sizes), backbones)
        self.labelled = 0  # the largest chunk that was labelled
        nearest = nearest_of(self.objective.label_distance)
        self.nearest = compiled(nearest, config, long_kernels=True)

    def survey(self, bank, size, survey):
        """One pass over the target: its outputs to `survey`, its centroids by Eq. (11)."""
        sums = mass = 0.0
        seen = []
        for raw in bank.chunks(size):
            phi, own, _, alpha, beta, y = self.predict(raw)
            seen.append((phi, beta))
            if len(bank) * self.sizes.sources * self.sizes.width > REMEMBERED:
                seen.clear()
            more, weight = weighted_sums(self.centroid_weight(y, own), phi)
            sums, mass = sums + more, mass + weight
            survey.add(*(x.asnumpy() for x in (y, own, alpha, beta)))
        self.set_clusters(ranks.total(sums), ranks.total(mass))
        self.seen = seen

    def relabel(self, bank, size, epoch):
        """A second pass: what the epoch's steps need to know each sample's label."""
        # Of a small target the survey before it has seen all that this pass would compute again.
        seen, self.seen = self.seen, []

        pairs = seen or (self.predict(raw)[::4] for raw in bank.chunks(size))
        parts = (kept.asnumpy() for kept in self.remember(self, pairs))
        return collected(parts, len(bank))

    def label(self, phi, beta):
        """Eqs. (12)-(14) of a chunk (B,); a shorter one is padded: no second compilation."""
        self.labelled = max(self.labelled, len(phi))
        long = (filled(x, self.labelled) for x in (phi, beta))
        found = self.nearest(*long, *self.clusters)
        return found[: len(phi)] if len(phi) < self.labelled else found

    def set_clusters(self, sums, mass):
        self.sums, self.mass = sums, mass
        self.clusters = settled(centroids(sums, mass), mass)

    def step(self, raw, memory, lr, learned):
        self.seen = []  # of other weights from here on
        return super().step(raw, memory, lr, learned)

    def kept(self):
        return {"clusters.sums": self.sums, "clusters.mass": self.mass}

    def load(self, arrays):
        super().load(arrays)
        self.seen = []
        clusters = {n: a for n, a in arrays.items() if n.startswith("clusters.")}
        if clusters:
            check_arrays(clusters, cluster_shapes(self.sizes), "clusters")
            parts = (clusters[f"clusters.{k}"].astype(np.float32) for k in ("sums", "mass"))
            self.set_clusters(*map(self.tensor, parts))
