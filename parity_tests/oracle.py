"""The equations once more, in float64 NumPy, written for reading: no trick, no shared code.

Two ports can share a bug; this third form is written from the paper's sums alone.
Names and arguments are those of the modules under test.
"""

import numpy as np


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def cosine(a, b):
    length = max(np.linalg.norm(a), 1e-8) * max(np.linalg.norm(b), 1e-8)
    return np.dot(a, b) / length


# -- heads ------------------------------------------------------------------------------------


def weight_norm(weight_v, weight_g):
    return np.stack([g * v / np.linalg.norm(v) for v, g in zip(weight_v, weight_g, strict=True)])


# -- attention --------------------------------------------------------------------------------


def cross_outputs(phi, weight, bias):
    return np.einsum("bid,jdc->bijc", phi, weight) + bias


def own_outputs(phi, weight, bias):
    return np.einsum("bid,idc->bic", phi, weight) + bias


def feature_keys(phi, weight, bias, heads):
    B, N, _ = phi.shape
    keys = [[phi[b, i] @ weight[i % len(weight)] for b in range(B)] for i in range(N)]
    keys = np.array(keys) + (bias if len(bias) == N else bias[0])
    return keys.reshape(N, B, heads, -1)


def output_keys(outputs, weight, bias, heads):
    B, N = outputs.shape[:2]
    keys = np.zeros((N, B, N, weight.shape[2]))
    for i in range(N):
        group = i % len(weight)
        keys[i] = outputs[:, i] @ weight[group] + bias[group]
    return keys.reshape(N, B, N, heads, -1)


def intra_similarity(features, outputs):
    N, B, J, H, _ = outputs.shape
    result = np.zeros((B, N, J, H))
    for b, i, j, h in np.ndindex(B, N, J, H):
        result[b, i, j, h] = cosine(features[i, b, h], outputs[i, b, j, h])
    return result


def keyed_similarity(features, outputs, weight, bias):
    """Sources first."""
    keys = output_keys(outputs.swapaxes(0, 1), weight, bias, features.shape[2])
    return intra_similarity(features, keys).swapaxes(0, 1)


keyless_similarity = keyed_similarity

HEADS = {
    "mean_then_softmax": lambda s, temperature: softmax(s.mean(-1) / temperature),
    "softmax_then_mean": lambda s, temperature: softmax(s / temperature, -2).mean(-1),
}


def intra_weights(similarity, temperature, reduce_heads):
    return reduce_heads(similarity, temperature)


def assemble(alpha, outputs):
    return np.einsum("bij,bijc->bic", alpha, outputs)


def joint_query(phi, weight, bias, heads):
    rows = [np.concatenate(list(sample)) @ weight + bias for sample in phi]
    return np.array(rows).reshape(len(phi), heads, -1)


def inter_weights(query, keys, temperature, reduce_heads):
    N, B, H, _ = keys.shape
    similarity = np.zeros((B, N, H))
    for b, i, h in np.ndindex(B, N, H):
        similarity[b, i, h] = cosine(query[b, h], keys[i, b, h])
    return reduce_heads(similarity, temperature)


def ensemble(beta, outputs):
    return np.einsum("bi,bic->bc", beta, outputs)


# -- losses -----------------------------------------------------------------------------------


def im_loss(logits, epsilon):
    p = softmax(logits)
    mean = p.mean(0)
    confident = -(p * np.log(p + epsilon)).sum(-1).mean(0)
    return confident + (mean * np.log(mean + epsilon)).sum(-1)


INTRA_LOSS = {
    "ensemble": lambda assembled, own: [assembled],
    "ensemble_and_own": lambda assembled, own: [assembled, own],
}


def intra_loss(assembled, own, epsilon, choice):
    parts = choice(assembled, own)
    return sum(im_loss(part[:, i], epsilon) for part in parts for i in range(part.shape[1]))


def cross_entropy(logits, labels, smoothing):
    classes = logits.shape[1]
    wanted = np.full(logits.shape, smoothing / classes)
    wanted[np.arange(len(labels)), labels] += 1 - smoothing
    return -(wanted * np.log(softmax(logits))).sum(1).mean()


def inter_loss(ce, im, ce_weight, im_weight):
    return ce_weight * ce + im_weight * im


def total_loss(inter, intra, intra_weight):
    return inter + intra_weight * intra


def losses(y, assembled, own, labels, epsilon, smoothing, weights, choice):
    ce, im = cross_entropy(y, labels, smoothing), im_loss(y, epsilon)
    intra = intra_loss(assembled, own, epsilon, choice)
    inter = inter_loss(ce, im, weights[0], weights[1])
    return total_loss(inter, intra, weights[2]), ce, im, intra


# -- pseudo labels ----------------------------------------------------------------------------


def ensemble_probability(y, own):
    return np.stack([softmax(y)] * own.shape[1], 1)


def own_probability(y, own):
    return softmax(own)


def weighted_sums(p, phi):
    return np.einsum("bic,bid->icd", p, phi), p.sum(0)


def centroids(sums, mass):
    mu = np.zeros_like(sums)
    for i, c in np.ndindex(*mass.shape):
        if mass[i, c] > 0:
            mu[i, c] = sums[i, c] / mass[i, c]
    return mu


def by_class(mu):
    return np.array(
        [np.concatenate([mu[i, c] for i in range(len(mu))]) for c in range(mu.shape[1])]
    )


def apart(centers, sources):
    """`by_class` undone: (N,C,D)."""
    return centers.reshape(len(centers), sources, -1).swapaxes(0, 1)


def gram(mu):
    N, C, _ = mu.shape
    products = [[mu[i, c] @ mu[j, c] for c in range(C)] for i in range(N) for j in range(N)]
    return np.array(products)


def empty_penalty(mass):
    return np.where((mass > 1e-8).any(0), 0.0, 1e30)[None]


def mixed_feature(phi, beta):
    return np.einsum("bi,bid->bd", beta, phi)


def mixed_centroids(mixed, beta, mu, products):
    mixture = np.einsum("bi,icd->bcd", beta, mu)
    return np.einsum("bd,bcd->bc", mixed, mixture), np.square(mixture).sum(-1)


def mixtures(phi, beta, centers, products):
    mu = apart(centers, beta.shape[1])
    return mixed_centroids(mixed_feature(phi, beta), beta, mu, products)


LABEL_DISTANCE = {  # less what is the same for all classes
    "cosine": lambda a, b: -cosine(a, b) * np.linalg.norm(a),
    "euclidean": lambda a, b: np.square(a - b).sum() - np.square(a).sum(),
}


def class_distances(phi, beta, centers, products, penalty, choice):
    feature = mixed_feature(phi, beta)
    mixture = np.einsum("bi,icd->bcd", beta, apart(centers, beta.shape[1]))
    result = np.zeros(mixture.shape[:2])
    for b, c in np.ndindex(*result.shape):
        result[b, c] = choice(feature[b], mixture[b, c])
    return result + penalty


def nearest_class(distances):
    return distances.argmin(1)


# -- methods ----------------------------------------------------------------------------------


def sigmoid_weights(scalars):
    s = 1 / (1 + np.exp(-scalars))
    return s / s.sum()


def transferability(scores):
    B, N, _ = scores.shape
    return np.array([[softmax(scores[b, i])[i] for i in range(N)] for b in range(B)])


def importance(share, prior):
    return np.stack([row * prior / np.dot(row, prior) for row in share])


def unit_features(phi):
    return phi / np.linalg.norm(phi, axis=-1, keepdims=True)


def unit_features_with_one(phi):
    result = np.zeros((*phi.shape[:2], phi.shape[2] + 1))
    for b, i in np.ndindex(*phi.shape[:2]):
        longer = np.append(phi[b, i], 1.0)
        result[b, i] = longer / np.linalg.norm(longer)
    return result


def cosine_labels(features, mu, penalty):
    B, N, _ = features.shape
    labels = np.zeros((B, N), int)
    for b, i in np.ndindex(B, N):
        distances = [1 - cosine(features[b, i], center) for center in mu[i]]
        labels[b, i] = np.argmin(np.array(distances) + penalty[i])
    return labels


def divergence(p, q):
    return (p * np.log(p / q)).sum()


def consistency_loss(weighted, labels):
    _, N, C = weighted.shape
    total = 0.0
    for c in np.unique(labels):
        q = [softmax(weighted[labels == c, i].mean(0)) for i in range(N)]
        for m in range(N):
            for k in range(N):
                total += (divergence(q[m], q[k]) + divergence(q[k], q[m])) / 2
    return total / (C * N)


def diversity_loss(scores, prior):
    """Cross entropy of all N*B features against their source, a source's features weighted."""
    B, N, _ = scores.shape
    weights = [prior[i] for _ in range(B) for i in range(N)]
    told = [-np.log(softmax(scores[b, i])[i]) for b in range(B) for i in range(N)]
    return np.dot(weights, told) / np.sum(weights)
