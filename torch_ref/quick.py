"""The quick forms of what takes longest, with fewer passes over the keys.

`attention` and `losses` have each equation in its readable form; tests hold the forms here to it,
gradients included.
"""

import torch

from torch_ref.losses import cross_entropy, inter_loss, total_loss
from torch_ref.products import Affine, by_onednn, product, stacked

NORM_FLOOR = 1e-8  # of a vector's length in a cosine


def affine(x, weight, bias):
    """x W + b for each group: x (G,S,K), weight (G,K,J), bias (G,1,J)."""
    return Affine.apply(x, weight, bias) if by_onednn(x) else torch.baddbmm(bias, x, weight)


def inverse_length(squared):
    """1 / |x| from |x|^2; of a zero vector large, but no NaN."""
    return torch.rsqrt(squared.clamp(min=NORM_FLOOR**2))


class Cosines(torch.autograd.Function):
    """Cosines (X,J,H) of one query (X,H,E) and J keys (X,J,H,E), with their gradient by hand.

    With s = <q,k> / (|q| |k|), the gradient is dk = (q / |q| - s k / |k|) / |k|, and the same for q
    with the two exchanged: a sum of the vectors that are already there.
    """

    @staticmethod
    def forward(context, query, keys):
        per_query = inverse_length(torch.linalg.vector_norm(query, dim=-1).square())[:, None]
        per_key = inverse_length(torch.linalg.vector_norm(keys, dim=-1).square())  # (X,J,H)
        s = (query[:, None] * keys).sum(-1) * per_key * per_query
        context.save_for_backward(query, keys, s, per_query, per_key)
        return s

    @staticmethod
    def backward(context, ds):
        query, keys, s, per_query, per_key = context.saved_tensors
        cross = (ds * per_key * per_query)[..., None]  # (X,J,H,1)
        along = (ds * s * per_key * per_key)[..., None]
        to_keys = (cross * query[:, None]).addcmul_(along, keys, value=-1)
        back = (ds * s).sum(1) * per_query.squeeze(1).square()  # (X,H)
        return (cross * keys).sum(1) - back[..., None] * query, to_keys


class KeyedCosines(torch.autograd.Function):
    """`Cosines` (G,X,N,H) of queries (G,X,H,E) and the keys of outputs (G,X*N,C) under W^O.

    A group at a time: its keys are measured, and in the gradient overwritten, while the cache has
    them, and plain products are quicker than a batched one. A query meets its keys in a product of
    all heads with all, of which one in H is used.
    """

    @staticmethod
    def forward(context, query, outputs, weight, bias):
        G, X, H, E = query.shape
        lengths, dots = outputs.new_empty(2, G, X, outputs.shape[1] // X, H)
        keys = []
        for g in range(G):
            key = product(outputs[g], weight[g], bias[g, 0])
            keys.append(key)
            torch.linalg.vector_norm(key.view(X, -1, H, E), dim=-1, out=lengths[g])
            every = torch.bmm(key.view(X, -1, E), query[g].transpose(1, 2))  # (X,N*H,H)
            dots[g] = every.view(X, -1, H, H).diagonal(dim1=2, dim2=3)
        per_query = inverse_length(torch.linalg.vector_norm(query, dim=-1).square())[:, :, None]
        per_key = inverse_length(lengths.square())
        s = dots * per_key * per_query
        context.save_for_backward(query, outputs, weight, s, per_query, per_key, *keys)
        return s

    @staticmethod
    def backward(context, ds):
        query, outputs, weight, s, per_query, per_key, *keys = context.saved_tensors
        _, X, H, E = query.shape
        cross = (ds * per_key * per_query)[..., None]  # (G,X,N,H,1)
        along = (ds * s * per_key * per_key).neg_()[..., None]
        back = (ds * s).sum(2) * per_query.squeeze(2).square()  # (G,X,H)
        to_query = torch.empty_like(query)
        to_outputs, to_weight, to_bias = [], [], []
        for g, to_key in enumerate(keys):
            key = to_key.view(X, -1, H, E)
            torch.sum(cross[g] * key, 1, out=to_query[g])
            key.mul_(along[g]).addcmul_(cross[g], query[g, :, None])
            to_weight.append(product(outputs[g].T, to_key))
            to_bias.append(to_key.sum(0, keepdim=True))
            if context.needs_input_grad[1]:
                to_outputs.append(product(to_key, weight[g].T))
        to_query.addcmul_(back[..., None], query, value=-1)
        of_outputs = stacked(to_outputs) if to_outputs else None
        return to_query, of_outputs, stacked(to_weight), stacked(to_bias)


def keyed_similarity(features, outputs, weight, bias):
    """`intra_similarity` of `output_keys`, sources first: O (N,B,N,C) -> (N,B,N,H)."""
    N, B, H, E = features.shape
    G = len(weight)
    o = outputs.reshape(G, N * B * N // G, -1)
    cosines = KeyedCosines.apply(features.reshape(G, N * B // G, H, E), o, weight, bias)
    return cosines.reshape(N, B, N, H)


def keyless_similarity(features, outputs, weight, bias):
    """The same without keys: from O (N,B,N,C) itself, as its keys are E/C times as large.

    <f, W o + b> = <W f, o> + <b, f> and |W o + b|^2 = <o, W W o> + 2 <W b, o> + |b|^2: the bias is
    one more class, whose output is 1.
    """
    N, B, H, E = features.shape
    G, C, _ = weight.shape
    W = torch.cat((weight, bias), 1).reshape(G, C + 1, H, E).transpose(1, 2)  # (G,H,C+1,E)
    W_turned = W.transpose(2, 3)
    one = outputs.new_ones(N, B, N, 1)
    o = torch.cat((outputs, one), 3)  # (N,B,N,C+1)

    seen = features.reshape(G, N * B // G, H, E).transpose(1, 2) @ W_turned  # W f
    dots = o @ seen.permute(0, 2, 3, 1).reshape(N, B, C + 1, H)  # (N,B,N,H)
    gram = (W @ W_turned).transpose(1, 2).reshape(G, C + 1, H * (C + 1))  # W W
    images = torch.bmm(o.reshape(G, -1, C + 1), gram).reshape(N, B, N, H, C + 1)
    squares = (images * o[:, :, :, None]).sum(-1)  # (N,B,N,H)
    lengths = inverse_length(features.square().sum(-1))[:, :, None]
    return dots * lengths * inverse_length(squares)


def inter_weights(query, keys, temperature, reduce_heads):
    """`attention.inter_weights`: beta (B,N) from query (B,H,E) and keys (N,B,H,E)."""
    return sample_weights(query, keys.transpose(0, 1), temperature, reduce_heads)


def sample_weights(query, keys, temperature, reduce_heads):
    """`inter_weights` of keys by sample (B,N,H,E)."""
    return reduce_heads(Cosines.apply(query, keys), temperature)


class InformationMaximisation(torch.autograd.Function):
    """K losses of logits (B,K,C) by Eq. (6), with their gradient by hand.

    L = sum_c m log m - 1/B sum_bc p log p, where m is the batch mean of p = softmax(z). So
    dp = (log m + 1 - log p - 1) / B, up to epsilon, and dz = p (dp - <p, dp>).
    """

    @staticmethod
    def forward(context, logits, epsilon):
        p = torch.softmax(logits, -1)
        logs = torch.log(p + epsilon)
        mean = p.mean(0)
        mean_logs = torch.log(mean + epsilon)
        context.save_for_backward(p, logs, mean, mean_logs)
        context.epsilon = epsilon
        confident = -(p * logs).sum(-1).mean(0)
        diverse = -(mean * mean_logs).sum(-1)
        return confident - diverse

    @staticmethod
    def backward(context, gradient):
        p, logs, mean, mean_logs = context.saved_tensors
        epsilon = context.epsilon
        to_p = (mean_logs + mean / (mean + epsilon)) - logs - p / (p + epsilon)
        each = p * to_p
        to_logits = each.addcmul_(p, each.sum(-1, keepdim=True), value=-1)
        return to_logits * (gradient[:, None] / len(p)), None


def im_loss(logits, epsilon):
    """`losses.im_loss`: (B,...,C) -> (...)."""
    together = logits.reshape(len(logits), -1, logits.shape[-1])
    return InformationMaximisation.apply(together, epsilon).reshape(logits.shape[1:-1])


def losses(y, assembled, own, labels, epsilon, smoothing, weights, choice):
    """`losses.total_loss` and its CE, IM and L_intra at once; only the first has a gradient."""
    ce_weight, im_weight, intra_weight = weights
    each = im_loss(torch.cat((y[:, None], *choice(assembled, own)), 1), epsilon)
    ce, im, intra = cross_entropy(y, labels, smoothing), each[0], each[1:].sum()
    loss = total_loss(inter_loss(ce, im, ce_weight, im_weight), intra, intra_weight)
    return loss, ce.detach(), im.detach(), intra.detach()


def mixtures(phi, beta, centers, products):
    """`mixed_centroids` of `mixed_feature`: phi~ . mu~_c and |mu~_c|^2, both (B,C).

    centers (C,N*D). beta_k phi~ = sum_i beta_k beta_i phi_i, and the sum over k is part of the
    product with them: no tensor (B,N,C) is written and read again. A length of zero may come out a
    rounding below it.
    """
    _, N, D = phi.shape
    pairs = beta[:, :, None] * beta[:, None, :]  # (B,N,N)
    weighted = torch.bmm(pairs, phi).reshape(-1, N * D)
    dots = product(weighted, centers.T)
    return dots, product(pairs.reshape(-1, N * N), products)
