"""The quick forms: broadcasts and sums of the equations, written as matrix products.

On a CPU, MindSpore's broadcasts and sums over an axis take many times as long as products of the
same tensors. `attention` and `losses` have each equation in its readable form; tests hold
the forms here to it, gradients included.

Quick to compile, too: a graph parses and infers what is written in Python below a call. A primitive
and the functions that only call one (`ops.transpose`, `ops.sum`) are a node; `x.swapaxes`,
`x.squeeze`, `x.sum`, `ops.split` and slices of shapes are dozens of calls, for every shape anew.
"""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.ops.functional import isconstant

from ms_biaten import ranks

NORM_FLOOR = 1e-8  # of a vector's length in a cosine
TOGETHER = 16  # vectors whose products with each other are quickest: a register's numbers
PRODUCT = ops.MatMul()
# No copy of a transposed matrix:
ROW_BY_ROW = ops.MatMul(transpose_b=True)
BATCHED_ROW_BY_ROW = ops.BatchMatMul(transpose_b=True)
BATCHED_COLUMN_BY_COLUMN = ops.BatchMatMul(transpose_a=True)
BATCHED_COLUMN_BY_ROW = ops.BatchMatMul(transpose_a=True, transpose_b=True)


# Computed by Python, once, while a graph is compiled: constants of it, and not for a dynamic batch.


@ops.constexpr
def resized(shape, width):
    """A shape with a last axis of `width`."""
    return (*shape[:-1], width)


@ops.constexpr
def full(shape, value, dtype):
    return Tensor(np.full(shape, value), dtype)


def ones(shape, dtype):
    return full(shape, 1.0, dtype)


@ops.constexpr
def most_together(count):
    return divisor(count, TOGETHER)


def divisor(size, most):
    """The largest that is at most `most`."""
    return next(d for d in range(min(most, size), 0, -1) if size % d == 0)


@ops.constexpr
def diagonal(size, dtype):
    """(J*J,J): of a matrix (J,J) as a row, its diagonal; turned, a matrix that has nothing else."""
    return Tensor(np.eye(size * size)[:, :: size + 1], dtype)


def affine(x, weight, bias):
    """x W + b for each group: x (G,S,K), weight (G,K,J), bias (G,1,J); None: W's last row."""
    G, S, _ = x.shape
    if bias is None:
        return ops.bmm(with_one(x, (G, S, 1)), weight)
    return ops.bmm(x, weight) + ops.bmm(ops.ones((G, S, 1), x.dtype), bias)


def with_one(x, shape):
    """(...,K) -> (...,K+1), a one behind every row; `shape` is theirs, (...,1)."""
    return ops.cat((x, ops.ones(shape, x.dtype)), -1)


def row_sums(x):
    """Sums over the last axis, kept: (..., E) -> (..., 1)."""
    E = x.shape[-1]
    sums = PRODUCT(x.reshape(-1, E), ones((E, 1), x.dtype))
    return sums.reshape(resized(x.shape, 1))


def squared_lengths(x):
    """|x|^2 of every vector: (G,J,E) -> (G,J), from their products with a few others.

    No squares are written, and products of `TOGETHER` vectors with each other take less time than
    those of every vector with itself. In a graph for batches of any length, only J are known.
    """
    G, J, E = x.shape
    few = most_together(G * J) if isconstant(G) else J
    rows = x.reshape(-1, few, E)
    own = PRODUCT(BATCHED_ROW_BY_ROW(rows, rows).reshape(-1, few * few), diagonal(few, x.dtype))
    return own.reshape(-1, J)


def spread(x, width):
    """(..., 1) -> (..., width), the same number in every place."""
    same = PRODUCT(x.reshape(-1, 1), ones((1, width), x.dtype))
    return same.reshape(resized(x.shape, width))


def inverse_length(squared):
    """1 / |x| from |x|^2; of a zero vector large, but no NaN."""
    return ops.rsqrt(ops.maximum(squared, NORM_FLOOR**2))


def same_head(x):
    """(X,J*H,H) -> (X,J,H): of the products of all heads, those of a head with itself."""
    X, rows, H = x.shape
    return PRODUCT(x.reshape(-1, H * H), diagonal(H, x.dtype)).reshape(X, rows // H, H)


def by_head(x):
    """(X,J,H) -> (X,J*H,H), zero where the heads differ: a factor for every head's own vector."""
    X, J, H = x.shape
    return ROW_BY_ROW(x.reshape(-1, H), diagonal(H, x.dtype)).reshape(X, J * H, H)


class Cosines(nn.Cell):
    """Cosines (X,J,H) of one query (X,H,E) and its J keys, with their gradient by hand.

    The keys have (X,J,H,E) numbers, in any shape.

    With s = <q,k> / (|q| |k|), the gradient is dk = (q / |q| - s k / |k|) / |k|, and the same for q
    with the two exchanged: a sum of the vectors that are already there. Beside the cosines, the
    cell returns what its gradient needs. A query meets its keys in a product of all heads with all,
    of which one in H is used: so it is not repeated for every key.
    """

    def construct(self, query, keys):
        X, H, E = query.shape
        rows = keys.reshape(X, -1, E)  # (X,J*H,E)
        per_query = inverse_length(squared_lengths(query)).reshape(X, 1, H)
        per_key = inverse_length(squared_lengths(keys.reshape(-1, H, E))).reshape(X, -1, H)
        s = same_head(BATCHED_ROW_BY_ROW(rows, query)) * per_key * per_query
        return s, per_query, per_key

    def bprop(self, query, keys, out, dout):
        X, H, E = query.shape
        rows = keys.reshape(X, -1, E)
        s, per_query, per_key = out
        ds = dout[0]
        cross = by_head(ds * per_key * per_query)  # (X,J*H,H)
        along = (ds * s * per_key * per_key).reshape(X, -1, 1)  # (X,J*H,1)
        to_keys = ops.bmm(cross, query) - spread(along, E) * rows
        to_query = BATCHED_COLUMN_BY_COLUMN(cross, rows)
        back = ops.sum(ds * s, 1) * ops.square(per_query.reshape(X, H))
        to_query = to_query - spread(back.reshape(X, H, 1), E) * query
        return to_query, to_keys.reshape(keys.shape)


COSINES = Cosines()


def keyed_similarity(features, outputs, weight, bias):
    """`intra_similarity` of `output_keys`, sources first: O (N,B,N,C) -> (N,B,N,H)."""
    N, B, H, E = features.shape
    G = weight.shape[0]
    o = outputs.reshape(G, N * B * N // G, -1)
    cosines = COSINES(features.reshape(N * B, H, E), affine(o, weight, bias))[0]
    return cosines.reshape(N, B, N, H)


def keyless_similarity(features, outputs, weight, bias):
    """The same without keys: from O (N,B,N,C) itself, as its keys are E/C times as large.

    <f, W o + b> = <W f, o> + <b, f> and |W o + b|^2 = <o, W W o> + 2 <W b, o> + |b|^2: the bias is
    one more class, whose output is 1.
    """
    N, B, H, E = features.shape
    G, C = weight.shape[0], outputs.shape[3]
    joined = weight if bias is None else ops.cat((weight, bias), 1)
    W = ops.transpose(joined.reshape(G, C + 1, H, E), (0, 2, 1, 3))  # (G,H,C+1,E)
    W_turned = ops.transpose(W, (0, 1, 3, 2))
    o = with_one(outputs, (N, B, N, 1))  # (N,B,N,C+1)

    f = ops.transpose(features.reshape(G, N * B // G, H, E), (0, 2, 1, 3))
    seen = ops.transpose(ops.bmm(f, W_turned), (0, 2, 3, 1))  # W f
    dots = ops.bmm(o, seen.reshape(N, B, C + 1, H))  # (N,B,N,H)
    gram = ops.transpose(ops.bmm(W, W_turned), (0, 2, 1, 3))  # W W
    images = ops.bmm(o.reshape(G, -1, C + 1), gram.reshape(G, C + 1, H * (C + 1)))
    images = images.reshape(N, B, N, H, C + 1)
    squares = ops.sum(images * o.reshape(N, B, N, 1, C + 1), -1)  # (N,B,N,H)
    lengths = inverse_length(ops.sum(ops.square(features), -1)).reshape(N, B, 1, H)
    return dots * lengths * inverse_length(squares)


def inter_weights(query, keys, temperature, reduce_heads):
    """`attention.inter_weights`: beta (B,N) from query (B,H,E) and keys (N,B,H,E)."""
    return sample_weights(query, ops.transpose(keys, (1, 0, 2, 3)), temperature, reduce_heads)


def sample_weights(query, keys, temperature, reduce_heads):
    """`inter_weights` of keys by sample (B,N,H,E)."""
    return reduce_heads(COSINES(query, keys)[0], temperature)


class SoftmaxThenMean(nn.Cell):
    """`attention.softmax_then_mean` of (X,J,H): (X,J), with its gradient by hand.

    With p = softmax(s) over J, ds = p (dp - sum_j p dp), and dp is 1/H of what a mean hands back.
    The sum over J and its repetition are one product. Beside the weights, the cell returns p.
    """

    def construct(self, similarity):
        p = ops.softmax(similarity, -2)
        return ops.mean(p, -1), p

    def bprop(self, similarity, out, dout):
        X, J, H = similarity.shape
        p, weights = out[1], dout[0].reshape(-1, 1)
        to_p = PRODUCT(weights, full((1, H), 1 / H, weights.dtype)).reshape(X, J, H)
        sums = ops.bmm(ones((X, J, J), p.dtype), p * to_p)
        return (p * (to_p - sums),)


SOFTMAX_THEN_MEAN = SoftmaxThenMean()


def batch_means(x):
    """Means (1,J) of x (B,J) over the global batch."""
    B = x.shape[0]
    if ranks.size() == 1:
        return PRODUCT(full((1, B), 1 / B, x.dtype), x)
    return ranks.total(PRODUCT(ones((1, B), x.dtype), x)) / ranks.rows(B)


def im_terms(logits, epsilon):
    """K losses of logits (B,K,C) by Eq. (6): (K,1), and what their gradient needs."""
    B, K, C = logits.shape
    p = ops.softmax(logits, -1)
    logs = ops.log(p + epsilon)
    mean = batch_means(p.reshape(B, K * C)).reshape(K, C)
    mean_logs = ops.log(mean + epsilon)
    confident = batch_means((p * logs).reshape(B, K * C)).reshape(K, C)
    return row_sums(mean * mean_logs - confident), p, logs, mean, mean_logs


def im_gradient(share, epsilon, p, logs, mean, mean_logs):
    """The gradient of sum_k share_k L_k by the logits; share (B,K,C), the same for a loss.

    L = sum_c m log m - 1/B sum_bc p log p, where m is the batch mean of p = softmax(z). So
    dp = (log m + 1 - log p - 1) / B, up to epsilon, and dz = p (dp - <p, dp>).
    """
    B, K, C = p.shape
    of_mean = (mean_logs + mean / (mean + epsilon)).reshape(1, K * C)
    spread_mean = PRODUCT(ones((B, 1), p.dtype), of_mean).reshape(B, K, C)
    to_p = share * (spread_mean - logs - p / (p + epsilon))
    each = p * to_p
    return each - p * spread(row_sums(each), C)


class InformationMaximisation(nn.Cell):
    """K losses of logits (B,K,C) by Eq. (6), with their gradient by hand.

    Beside the losses, the cell returns what its gradient needs.
    """

    def construct(self, logits, epsilon):
        each, *kept = im_terms(logits, epsilon)
        return each.reshape(-1), *kept

    def bprop(self, logits, epsilon, out, dout):
        B, K, C = logits.shape
        # Every worker has the loss of all: their gradients are averaged, so each gives its sum.
        of_loss = (dout[0] * (ranks.size() / ranks.rows(B))).reshape(1, K)
        share = PRODUCT(ones((B, 1), logits.dtype), of_loss).reshape(B, K, 1)
        return im_gradient(spread(share, C), epsilon, *out[1:]), 0.0


INFORMATION_MAXIMISATION = InformationMaximisation()


def im_loss(logits, epsilon):
    """`losses.im_loss`: (B,...,C) -> (...)."""
    together = logits.reshape(logits.shape[0], -1, logits.shape[-1])
    return INFORMATION_MAXIMISATION(together, epsilon)[0].reshape(logits.shape[1:-1])


class CrossEntropy(nn.Cell):
    """Mean cross entropy of logits (B,C) and wanted probabilities, with its gradient by hand.

    dz = (p - wanted) / B, as the wanted ones sum to 1. Beside the loss, the cell returns p.
    """

    def construct(self, logits, wanted):
        return wanted_terms(logits, wanted).reshape(()), ops.softmax(logits, -1)

    def bprop(self, logits, wanted, out, dout):
        # Every worker has the loss of all: their gradients are averaged, so each gives its sum.
        share = dout[0] * (ranks.size() / ranks.rows(logits.shape[0]))
        return share * (out[1] - wanted), ops.zeros_like(wanted)


def wanted_terms(logits, wanted):
    """- 1/B sum_bc wanted log p: (1,1)."""
    B, C = logits.shape
    each = (ops.log_softmax(logits, -1) * wanted).reshape(B * C, 1)
    if ranks.size() == 1:
        return PRODUCT(full((1, B * C), -1 / B, each.dtype), each)
    return ranks.total(PRODUCT(full((1, B * C), -1.0, each.dtype), each)) / ranks.rows(B)


CROSS_ENTROPY = CrossEntropy()


def smoothed(labels, classes, smoothing, dtype):
    """The wanted probabilities (B,C): all but `smoothing` of them the label's."""
    rest = smoothing / classes
    on, off = Tensor(1 - smoothing + rest, ms.float32), Tensor(rest, ms.float32)
    return ops.stop_gradient(ops.one_hot(labels, classes, on, off).astype(dtype))


class Losses(nn.Cell):
    """L and its terms at once, from logits (B,K,C), those of y first, and wanted probabilities.

    The coefficients are constants of a graph: no kernels for sums of a few numbers, nor for their
    gradients. Only L has a gradient. Beside L, CE, IM and L_intra, the cell returns what it needs.
    """

    def construct(self, logits, y, wanted, epsilon, ce_weight, im_weight, intra_weight):
        K = logits.shape[1]
        each, *kept = im_terms(logits, epsilon)
        ce, first = wanted_terms(y, wanted), (1.0,) + (0.0,) * (K - 1)
        im = PRODUCT(row(first, each.dtype), each)
        intra = PRODUCT(row((0.0,) + (1.0,) * (K - 1), each.dtype), each)
        loss = ce_weight * ce + PRODUCT(row(by_loss(K, im_weight, intra_weight), each.dtype), each)
        scalars = loss.reshape(()), ce.reshape(()), im.reshape(()), intra.reshape(())
        return *scalars, ops.softmax(y, -1), *kept

    def bprop(self, logits, y, wanted, epsilon, ce_weight, im_weight, intra_weight, out, dout):
        B, K, C = logits.shape
        # Every worker has the loss of all: their gradients are averaged, so each gives its sum.
        each = dout[0] * (ranks.size() / ranks.rows(B))
        weights = by_loss(K, im_weight, intra_weight)
        share = each * spread_row(weights, (B, K, C), logits.dtype)
        to_y = each * ce_weight * (out[4] - wanted)
        nothing = 0.0, 0.0, 0.0, 0.0
        return im_gradient(share, epsilon, *out[5:]), to_y, ops.zeros_like(wanted), *nothing


@ops.constexpr
def by_loss(count, first, others):
    return (first,) + (others,) * (count - 1)


@ops.constexpr
def row(values, dtype):
    """(1,K)"""
    return Tensor(np.array([values]), dtype)


@ops.constexpr
def spread_row(values, shape, dtype):
    """(B,K,C), the k-th of K values in every place of [:, k]."""
    return Tensor(np.broadcast_to(np.array(values)[:, None], shape).copy(), dtype)


LOSSES = Losses()


def losses(y, assembled, own, labels, epsilon, smoothing, weights, choice):
    """`losses.total_loss` and its CE, IM and L_intra at once; only the first has a gradient."""
    together = ops.cat((ops.expand_dims(y, 1), *choice(assembled, own)), 1)
    wanted = smoothed(labels, y.shape[-1], smoothing, y.dtype)
    return LOSSES(together, y, wanted, epsilon, *weights)[:4]


def mixtures(phi, beta, centers, products):
    """`mixed_centroids` of `mixed_feature`: phi~ . mu~_c and |mu~_c|^2, both (B,C).

    centers (C,N*D). beta_k phi~ = sum_i beta_k beta_i phi_i, and the sum over k is part of the
    product with them: no tensor (B,N,C) is written and read again. A length of zero may come out a
    rounding below it.
    """
    _, N, D = phi.shape
    pairs = beta.reshape(-1, N, 1) * beta.reshape(-1, 1, N)  # (B,N,N)
    weighted = ops.bmm(pairs, phi).reshape(-1, N * D)
    dots = ROW_BY_ROW(weighted, centers)
    return dots, PRODUCT(pairs.reshape(-1, N * N), products)
