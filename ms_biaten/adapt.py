"""The adapted model, and its update by Eq. (17). `spec.algorithm` runs the loop of Algorithm 1."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from ms_biaten.attention import ATTENTION
from ms_biaten.heads import Bottlenecks, Classifiers
from ms_biaten.losses import INTRA_LOSS, cross_entropy, im_loss, inter_loss, intra_loss, total_loss
from ms_biaten.pseudo_label import (
    CENTROID_WEIGHT,
    LABEL_DISTANCE,
    centroids,
    class_distances,
    empty_penalty,
    gram,
    nearest_class,
    weighted_sums,
)
from ms_biaten.spec.schedules import loss_coefficients
from ms_biaten.spec.shapes import attention_shapes
from ms_biaten.spec.weights import check_arrays, torch_name


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


def clip_gradients(gradients, limit):
    """Scales all gradients to a joint length of at most `limit`; returns them and the length."""
    # As products: MindSpore sums millions of numbers several times slower than it multiplies them.
    squared = [ops.matmul(g.reshape(1, -1), g.reshape(-1, 1)) for g in gradients]
    length = ops.sqrt(ops.cat(squared).sum())
    scale = ops.minimum(limit / (length + 1e-6), 1.0)
    return [g * scale for g in gradients], length


def remember_labels(phi, beta, mu, products, penalty, distance):
    """Paper: what an epoch keeps of a sample is its label."""
    return nearest_class(class_distances(phi, beta, mu, products, penalty, distance)).astype(
        ms.int32
    )


def remember_features(phi, beta, mu, products, penalty, distance):
    """Released code: an epoch keeps the features (N,D), and every batch labels them anew."""
    return phi


def remembered_labels(memory, beta, mu, products, penalty, distance):
    """Paper: memory (B,) is the labels."""
    return memory


def batch_labels(memory, beta, mu, products, penalty, distance):
    """Released code: memory (B,N,D) under this batch's beta."""
    return nearest_class(class_distances(memory, beta, mu, products, penalty, distance))


MEMORY = {"per_epoch": remember_labels, "per_batch": remember_features}
LABEL_REFRESH = {"per_epoch": remembered_labels, "per_batch": batch_labels}
EVALUATE_WITH = {"learned": 1.0, "one_hot": 0.0}


class Objective(nn.Cell):
    """Eqs. (1)-(16) on a batch: L, and what it is made of."""

    def __init__(self, config, sizes):
        super().__init__()
        self.model = Model(config, sizes)
        self.epsilon, self.smoothing = config.loss.epsilon, config.loss.label_smoothing
        self.ce_weight, self.im_weight, self.intra_weight = loss_coefficients(config)
        self.intra_loss = INTRA_LOSS[config.profile.intra_loss]
        self.label_distance = LABEL_DISTANCE[config.profile.label_distance]
        self.label_refresh = LABEL_REFRESH[config.profile.label_refresh]

    def construct(self, raw, memory, learned, mu, products, penalty):
        _, own, assembled, alpha, beta, y = self.model(raw, learned)
        labels = self.label_refresh(
            memory, ops.stop_gradient(beta), mu, products, penalty, self.label_distance
        )
        ce = cross_entropy(y, labels, self.smoothing)
        im = im_loss(y, self.epsilon)
        intra = intra_loss(assembled, own, self.epsilon, self.intra_loss)
        inter = inter_loss(ce, im, self.ce_weight, self.im_weight)
        loss = total_loss(inter, intra, self.intra_weight)
        return loss, (ce, im, intra, labels, alpha, beta, y)


class Adapter:
    """Eq. (17): attention and bottlenecks minimise L; backbones and classifiers stay frozen."""

    def __init__(self, config, sizes, arrays):
        train = config.train
        self.chunk = 0  # the largest chunk that was predicted
        self.objective = Objective(config, sizes)
        self.model = self.objective.model
        self.trained = {p.name: p for p in self.objective.trainable_params()}
        # As a group: outside of one, MindSpore leaves every "gamma" and "beta" without decay.
        group = {"params": list(self.trained.values()), "weight_decay": train.weight_decay}
        self.optimizer = nn.SGD(
            [group], learning_rate=train.lr, momentum=train.momentum, nesterov=train.nesterov
        )
        for first in self.optimizer.stat:
            # "No step yet: forget the momentum". From zero that changes nothing, but it would make
            # a resumed run forget the momentum it has just loaded.
            first.set_data(ops.zeros_like(first))
        self.clip_norm = train.clip_norm or float("inf")
        self.centroid_weight = CENTROID_WEIGHT[config.profile.centroid_weight]
        self.remember = MEMORY[config.profile.label_refresh]
        self.evaluate_with = Tensor(EVALUATE_WITH[config.profile.evaluate_with], ms.float32)
        # Compiled separately: a compiled function keeps the training flag of its first call.
        compiled = ms.jit if config.run.mode == "graph" else lambda function: function
        self.forward = compiled(forward_of(self.model))
        self.update = compiled(update_of(self.objective, self.optimizer, self.clip_norm))
        self.load({f"model.{name}": array for name, array in arrays.items()})

    # -- the target as a whole -----------------------------------------------------------------

    def predict(self, raw):
        """Outputs of a chunk in evaluation mode, as tensors."""
        self.model.set_train(False)
        self.chunk = max(self.chunk, len(raw))
        short = self.chunk - len(raw)  # a last, shorter chunk is padded: no second compilation
        padded = np.pad(raw, ((0, short), (0, 0), (0, 0))) if short else raw
        outputs = self.forward(self.tensor(padded), self.evaluate_with)
        return tuple(x[: len(raw)] for x in outputs) if short else outputs

    def survey(self, chunks, survey):
        """One pass over the target: its outputs to `survey`, its centroids by Eq. (11)."""
        sums = mass = 0.0
        for raw in chunks:
            phi, own, _, alpha, beta, y = self.predict(raw)
            more, weight = weighted_sums(self.centroid_weight(y, own), phi)
            sums, mass = sums + more, mass + weight
            survey.add(*(x.asnumpy() for x in (y, own, alpha, beta)))
        self.set_clusters(sums, mass)

    def relabel(self, chunks):
        """A second pass: what the epoch's steps need to know each sample's label."""
        parts = []
        for raw in chunks:
            phi, _, _, _, beta, _ = self.predict(raw)
            kept = self.remember(phi, beta, *self.clusters, self.objective.label_distance)
            parts.append(kept.asnumpy())
        return np.concatenate(parts)

    def set_clusters(self, sums, mass):
        mu = centroids(sums, mass)
        self.sums, self.mass = sums, mass
        self.clusters = mu, gram(mu), empty_penalty(mass)

    def reestimate(self, bank, size):
        """Batch normalisation's statistics over the whole target, in two passes."""
        bottlenecks, count = self.model.bottlenecks, len(bank)
        mean = squares = 0.0
        for raw in bank.chunks(size):
            mean = mean + bottlenecks.linear(self.tensor(raw)).sum(0) / count
        for raw in bank.chunks(size):
            apart = bottlenecks.linear(self.tensor(raw)) - mean
            squares = squares + ops.square(apart).sum(0) / (count - 1)
        ops.assign(bottlenecks.norm.moving_mean, mean)
        ops.assign(bottlenecks.norm.moving_variance, squares)

    # -- one batch -----------------------------------------------------------------------------

    def step(self, raw, memory, lr, learned):
        """One update; a flat record of its losses, weights and labels."""
        self.model.set_train(True)
        loss, length, parts = self.update(
            self.tensor(raw),
            self.tensor(memory),
            Tensor(lr, ms.float32),
            Tensor(float(learned), ms.float32),
            *self.clusters,
        )
        ce, im, intra, labels, alpha, beta, y = (x.asnumpy() for x in parts)
        return {
            "loss": float(loss.asnumpy()),
            "ce": float(ce),
            "im_loss": float(im),
            "intra": float(intra),
            "grad_norm": float(length.asnumpy()),
            "labels": labels,
            "alpha": alpha,
            "beta": beta,
            "y": y,
        }

    # -- state ---------------------------------------------------------------------------------

    def tensor(self, array):
        return Tensor.from_numpy(np.ascontiguousarray(array))

    def weights(self):
        """The model's tensors by name."""
        return {torch_name(p.name): p for p in self.objective.get_parameters()}

    def momenta(self):
        """The optimiser's tensors by name."""
        pairs = zip(self.optimizer.parameters, self.optimizer.accum, strict=True)
        return {f"momentum.{torch_name(p.name)}": momentum for p, momentum in pairs}

    def state(self):
        """Everything that a resumed run needs, as arrays under PyTorch's names."""
        clusters = {"clusters.sums": self.sums, "clusters.mass": self.mass}
        tensors = {**self.weights(), **self.momenta(), **clusters}
        return {name: tensor.asnumpy().copy() for name, tensor in tensors.items()}

    def load(self, arrays):
        """Weights, all of them; momenta and clusters where the file has them."""
        tensors = self.weights()
        if any(name.startswith("momentum.") for name in arrays):
            tensors |= self.momenta()
        own = {n: a for n, a in arrays.items() if n.startswith(("model.", "momentum."))}
        check_arrays(own, {n: tuple(t.shape) for n, t in tensors.items()}, "weights")
        for name, tensor in tensors.items():
            tensor.set_data(self.tensor(arrays[name].copy()))
        if "clusters.sums" in arrays:
            self.set_clusters(*(self.tensor(arrays[f"clusters.{k}"]) for k in ("sums", "mass")))

    def parameter_count(self):
        return sum(parameter.size for parameter in self.trained.values())


def forward_of(model):
    def forward(raw, learned):
        return model(raw, learned)

    return forward


def update_of(objective, optimizer, clip_norm):
    """Gradients, clipping and the optimiser's step as one function of tensors."""
    differentiate = ms.value_and_grad(objective, None, optimizer.parameters, has_aux=True)

    def update(raw, memory, lr, learned, mu, products, penalty):
        ops.assign(optimizer.learning_rate, lr)
        (loss, parts), gradients = differentiate(raw, memory, learned, mu, products, penalty)
        clipped, length = clip_gradients(gradients, clip_norm)
        optimizer(tuple(clipped))
        return loss, length, parts

    return update
