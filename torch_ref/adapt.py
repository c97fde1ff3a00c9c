"""The adapted model, and its update by Eq. (17). `spec.algorithm` runs the loop of Algorithm 1."""

import numpy as np
import torch
from torch import nn

from ms_biaten.spec.schedules import loss_coefficients
from ms_biaten.spec.shapes import attention_shapes
from ms_biaten.spec.weights import check_arrays
from torch_ref.attention import ATTENTION
from torch_ref.heads import Bottlenecks, Classifiers
from torch_ref.losses import INTRA_LOSS, cross_entropy, im_loss, inter_loss, intra_loss, total_loss
from torch_ref.pseudo_label import (
    CENTROID_WEIGHT,
    LABEL_DISTANCE,
    centroids,
    class_distances,
    empty_penalty,
    gram,
    nearest_class,
    weighted_sums,
)


class Model(nn.Module):
    """raw (B,N,R) -> phi (B,N,D), own and assembled outputs (B,N,C), alpha, beta, y (B,C)."""

    def __init__(self, config, sizes):
        super().__init__()
        self.bottlenecks = Bottlenecks(sizes)
        self.classifiers = Classifiers(sizes)
        self.attention = ATTENTION[config.method.name](
            config, sizes, attention_shapes(config, sizes)
        )

    def forward(self, raw, learned):
        phi = self.bottlenecks(raw)
        frozen = self.classifiers
        return phi, *self.attention(phi, frozen.weight, frozen.bias, learned)


def clip_gradients(gradients, limit):
    """Scales all gradients to a joint length of at most `limit`; returns them and the length."""
    length = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    scale = (limit / (length + 1e-6)).clamp(max=1.0)
    return [g * scale for g in gradients], length


def remember_labels(phi, beta, mu, products, penalty, distance):
    """Paper: what an epoch keeps of a sample is its label."""
    return nearest_class(class_distances(phi, beta, mu, products, penalty, distance))


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


class Objective(nn.Module):
    """Eqs. (1)-(16) on a batch: L, and what it is made of."""

    def __init__(self, config, sizes):
        super().__init__()
        self.model = Model(config, sizes)
        self.epsilon, self.smoothing = config.loss.epsilon, config.loss.label_smoothing
        self.ce_weight, self.im_weight, self.intra_weight = loss_coefficients(config)
        self.intra_loss = INTRA_LOSS[config.profile.intra_loss]
        self.label_distance = LABEL_DISTANCE[config.profile.label_distance]
        self.label_refresh = LABEL_REFRESH[config.profile.label_refresh]

    def forward(self, raw, memory, learned, mu, products, penalty):
        _, own, assembled, alpha, beta, y = self.model(raw, learned)
        labels = self.label_refresh(
            memory, beta.detach(), mu, products, penalty, self.label_distance
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
        self.device = torch.device("cuda" if config.run.device == "GPU" else "cpu")
        self.objective = Objective(config, sizes).to(self.device)
        self.model = self.objective.model
        self.trained = {n: p for n, p in self.objective.named_parameters() if p.requires_grad}
        self.optimizer = torch.optim.SGD(
            self.trained.values(),
            lr=train.lr,
            momentum=train.momentum,
            weight_decay=train.weight_decay,
            nesterov=train.nesterov,
        )
        self.clip_norm = train.clip_norm or float("inf")
        self.centroid_weight = CENTROID_WEIGHT[config.profile.centroid_weight]
        self.remember = MEMORY[config.profile.label_refresh]
        self.evaluate_with = EVALUATE_WITH[config.profile.evaluate_with]
        self.load({f"model.{name}": array for name, array in arrays.items()})

    # -- the target as a whole -----------------------------------------------------------------

    @torch.no_grad()
    def predict(self, raw):
        """Outputs of a chunk in evaluation mode, as tensors."""
        self.model.eval()
        return self.model(self.tensor(raw), self.evaluate_with)

    def survey(self, chunks, survey):
        """One pass over the target: its outputs to `survey`, its centroids by Eq. (11)."""
        sums = mass = 0.0
        for raw in chunks:
            phi, own, _, alpha, beta, y = self.predict(raw)
            more, weight = weighted_sums(self.centroid_weight(y, own), phi)
            sums, mass = sums + more, mass + weight
            survey.add(*(x.cpu().numpy() for x in (y, own, alpha, beta)))
        self.set_clusters(sums, mass)

    def relabel(self, chunks):
        """A second pass: what the epoch's steps need to know each sample's label."""
        parts = []
        for raw in chunks:
            phi, _, _, _, beta, _ = self.predict(raw)
            kept = self.remember(phi, beta, *self.clusters, self.objective.label_distance)
            parts.append(kept.cpu().numpy())
        return np.concatenate(parts)

    def set_clusters(self, sums, mass):
        mu = centroids(sums, mass)
        self.sums, self.mass = sums, mass
        self.clusters = mu, gram(mu), empty_penalty(mass)

    @torch.no_grad()
    def reestimate(self, bank, size):
        """Batch normalisation's statistics over the whole target, in two passes."""
        bottlenecks, count = self.model.bottlenecks, len(bank)
        mean = squares = 0.0
        for raw in bank.chunks(size):
            mean = mean + bottlenecks.linear(self.tensor(raw)).sum(0) / count
        for raw in bank.chunks(size):
            apart = bottlenecks.linear(self.tensor(raw)) - mean
            squares = squares + apart.square().sum(0) / (count - 1)
        bottlenecks.norm.running_mean.copy_(mean)
        bottlenecks.norm.running_var.copy_(squares)

    # -- one batch -----------------------------------------------------------------------------

    def update(self, raw, memory, lr, learned, *clusters):
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss, parts = self.objective(raw, memory, learned, *clusters)
        parameters = list(self.trained.values())
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        clipped, length = clip_gradients(gradients, self.clip_norm)
        for parameter, gradient in zip(parameters, clipped, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        return loss, length, parts

    def step(self, raw, memory, lr, learned):
        """One update; a flat record of its losses, weights and labels."""
        self.model.train()
        loss, length, parts = self.update(
            self.tensor(raw), self.tensor(memory), lr, float(learned), *self.clusters
        )
        ce, im, intra, labels, alpha, beta, y = (x.detach().cpu().numpy() for x in parts)
        return {
            "loss": float(loss.detach()),
            "ce": float(ce),
            "im_loss": float(im),
            "intra": float(intra),
            "grad_norm": float(length),
            "labels": labels,
            "alpha": alpha,
            "beta": beta,
            "y": y,
        }

    # -- state ---------------------------------------------------------------------------------

    def tensor(self, array):
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def weights(self):
        """The model's tensors by name; batch normalisation's counter is of no use."""
        state = self.objective.state_dict()
        return {name: t for name, t in state.items() if not name.endswith("num_batches_tracked")}

    def momenta(self):
        """The optimiser's tensors by name."""
        state = self.optimizer.state
        for parameter in self.trained.values():
            if "momentum_buffer" not in state[parameter]:
                state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return {f"momentum.{n}": state[p]["momentum_buffer"] for n, p in self.trained.items()}

    def state(self):
        """Everything that a resumed run needs, as arrays under PyTorch's names."""
        clusters = {"clusters.sums": self.sums, "clusters.mass": self.mass}
        tensors = {**self.weights(), **self.momenta(), **clusters}
        return {name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}

    def load(self, arrays):
        """Weights, all of them; momenta and clusters where the file has them."""
        tensors = self.weights()
        if any(name.startswith("momentum.") for name in arrays):
            tensors |= self.momenta()
        own = {n: a for n, a in arrays.items() if n.startswith(("model.", "momentum."))}
        check_arrays(own, {n: tuple(t.shape) for n, t in tensors.items()}, "weights")
        for name, tensor in tensors.items():
            tensor.copy_(self.tensor(arrays[name]))
        if "clusters.sums" in arrays:
            self.set_clusters(*(self.tensor(arrays[f"clusters.{k}"]) for k in ("sums", "mass")))

    def parameter_count(self):
        return sum(parameter.numel() for parameter in self.trained.values())
