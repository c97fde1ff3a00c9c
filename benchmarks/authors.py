"""The structure of the authors' released step, as a yardstick: loops where they have loops.

Written by us from the description of what it computes (the `official` profile): a linear layer and
a batch normalisation for each source, a call of a weight-normalised classifier for each pair of
sources, two linear layers for each head of each source, and a distance for each sample on its own.
The equations are those of `torch_ref`; a test holds the two to the same loss.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Classifier(nn.Module):
    """Frozen, its weight made from direction and length at every call, as its checkpoint has it."""

    def __init__(self, sizes):
        super().__init__()
        self.register_buffer("direction", torch.zeros(sizes.classes, sizes.width))
        self.register_buffer("length", torch.zeros(sizes.classes, 1))
        self.register_buffer("bias", torch.zeros(sizes.classes))

    def forward(self, phi):
        return F.linear(phi, torch._weight_norm(self.direction, self.length, 0), self.bias)


class Source(nn.Module):
    """One source: its bottleneck, its frozen classifier, its heads' projections W^F and W^O."""

    def __init__(self, sizes):
        super().__init__()
        self.linear = nn.Linear(sizes.raw, sizes.width)
        self.norm = nn.BatchNorm1d(sizes.width)
        self.classifier = Classifier(sizes)
        heads = range(sizes.heads)
        self.feature = nn.ModuleList(nn.Linear(sizes.width, sizes.embedding) for _ in heads)
        self.output = nn.ModuleList(nn.Linear(sizes.classes, sizes.embedding) for _ in heads)

    def forward(self, raw):
        return self.norm(self.linear(raw))


class Authors(nn.Module):
    """raw (B,N,R) -> own outputs, assembled outputs (lists of (B,C)), beta (B,N), y (B,C)."""

    def __init__(self, sizes):
        super().__init__()
        self.sources = nn.ModuleList(Source(sizes) for _ in range(sizes.sources))
        joint = sizes.sources * sizes.width
        self.query = nn.ModuleList(nn.Linear(joint, sizes.embedding) for _ in range(sizes.heads))

    def forward(self, raw, learned):
        phi = [source(raw[:, i]) for i, source in enumerate(self.sources)]
        own, assembled, keys = [], [], []
        for i, source in enumerate(self.sources):
            outputs = [other.classifier(phi[i]) for other in self.sources]
            own.append(outputs[i])
            seen = torch.stack([output.detach() for output in outputs], 1)  # (B,N,C)
            alpha, kept = 0.0, []
            for feature, output in zip(source.feature, source.output, strict=True):
                key = feature(phi[i].detach())  # (B,E)
                similarity = F.cosine_similarity(key[:, None], output(seen), dim=-1)
                alpha = alpha + torch.softmax(similarity, 1) / len(source.feature)
                kept.append(key)
            assembled.append((alpha[:, :, None] * seen).sum(1))
            keys.append(kept)
        joint = torch.cat(phi, 1).detach()
        beta = 0.0
        for head, query in enumerate(self.query):
            key = torch.stack([kept[head] for kept in keys], 1)  # (B,N,E)
            similarity = F.cosine_similarity(query(joint)[:, None], key, dim=-1)
            beta = beta + torch.softmax(similarity, 1) / len(self.query)
        used = torch.stack(assembled if learned else own, 1)
        return phi, own, assembled, beta, (beta[:, :, None] * used).sum(1)


def labels_by_sample(features, beta, centroids):
    """Eqs. (12)-(14), Euclidean, a sample at a time: features (B,N,D), centroids (N,C,D)."""
    labels = []
    for feature, weight in zip(features, beta, strict=True):
        mixed = (weight[:, None] * feature).sum(0, keepdim=True)  # (1,D)
        centers = (weight[:, None, None] * centroids).sum(0)  # (C,D)
        labels.append(torch.cdist(mixed, centers).argmin(1))
    return torch.cat(labels)


def information_maximisation(logits, epsilon):
    p = torch.softmax(logits, 1)
    entropy = -(p * torch.log(p + epsilon)).sum(1).mean()
    mean = p.mean(0)
    return entropy + (mean * torch.log(mean + epsilon)).sum()


class AuthorsStep:
    """One update with SGD, as the `official` profile of `config` says."""

    def __init__(self, config, sizes):
        self.config = config
        self.model = Authors(sizes)
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        train = config.train
        self.optimizer = torch.optim.SGD(self.trained, lr=train.lr, momentum=train.momentum)
        self.centroids = None

    def load(self, arrays):
        """The arrays of `torch_ref`'s model, cut into sources and heads."""
        cut = {name: torch.from_numpy(array) for name, array in arrays.items()}
        heads = len(self.model.query)
        with torch.no_grad():
            for i, source in enumerate(self.model.sources):
                source.linear.weight.copy_(cut["bottlenecks.weight"][i].T)
                source.linear.bias.copy_(cut["bottlenecks.bias"][i, 0])
                width = len(source.linear.bias)
                for ours, name in NORM.items():
                    part = cut[f"bottlenecks.norm.{name}"][i * width : (i + 1) * width]
                    getattr(source.norm, ours).copy_(part)
                weight = cut["classifiers.weight"][i].T
                source.classifier.direction.copy_(weight)
                source.classifier.length.copy_(weight.norm(dim=1, keepdim=True))
                source.classifier.bias.copy_(cut["classifiers.bias"][i])
                for kind in ("feature", "output"):
                    weights = cut[f"attention.{kind}.weight"][i].chunk(heads, 1)
                    biases = cut[f"attention.{kind}.bias"][i, 0].chunk(heads)
                    copy_heads(getattr(source, kind), weights, biases)
            weights = cut["attention.query.weight"].chunk(heads, 1)
            copy_heads(self.model.query, weights, cut["attention.query.bias"].chunk(heads))

    @torch.no_grad()
    def survey(self, chunks):
        """Evaluation of the whole target, and the next epoch's centroids, each source's own."""
        self.model.eval()
        features, outputs, predicted = [], [], []
        for raw in chunks:
            phi, own, _, _, y = self.model(torch.from_numpy(raw), False)
            features.append(torch.stack(phi, 1))
            outputs.append(torch.stack(own, 1))
            predicted.append(y.argmax(1))
        self.features = torch.cat(features)
        p = torch.softmax(torch.cat(outputs), 2)
        centers = []
        for i in range(p.shape[1]):
            total = p[:, i].T @ self.features[:, i]
            centers.append(total / p[:, i].sum(0)[:, None].clamp(min=1e-8))
        self.centroids = torch.stack(centers)
        return torch.cat(predicted)

    def step(self, raw, rows, lr, learned):
        self.model.train()
        loss_settings = self.config.loss
        _, own, assembled, beta, y = self.model(torch.from_numpy(raw), learned)
        labels = labels_by_sample(self.features[rows], beta.detach(), self.centroids)
        ce = F.cross_entropy(y, labels, label_smoothing=loss_settings.label_smoothing)
        loss = loss_settings.gamma**2 * ce + information_maximisation(y, loss_settings.epsilon)
        for one, other in zip(assembled, own, strict=True):
            pair = information_maximisation(one, loss_settings.epsilon)
            pair = pair + information_maximisation(other, loss_settings.epsilon)
            loss = loss + loss_settings.lambda_intra * pair
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.trained, self.config.train.clip_norm)
        self.optimizer.step()
        return float(loss.detach())


NORM = {
    "weight": "weight",
    "bias": "bias",
    "running_mean": "running_mean",
    "running_var": "running_var",
}


def copy_heads(layers, weights, biases):
    for layer, weight, bias in zip(layers, weights, biases, strict=True):
        layer.weight.copy_(weight.T)
        layer.bias.copy_(bias)
