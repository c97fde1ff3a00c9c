"""What the methods minimise beside cross entropy and IM loss. B batch, N sources, C classes."""

from mindspore import ops

from ms_biaten import ranks
from ms_biaten.methods.clustering import one_hot


def consistency_loss(weighted, labels):
    """CAiDA's L_crc: sources should agree on each class's mean output; weighted (B,N,C) = w_i y_i.

    1/(CN) sum_c sum_{m,k} KL(q_m || q_k) over the classes c that the batch's labels hold; both
    orders of a pair are in the sum, so its symmetric halves are, too.
    """
    B, N, C = weighted.shape
    members = one_hot(labels, C, weighted.dtype)  # (B,C)
    counts = ranks.total(members.sum(0))  # (C,)
    sums = ranks.total(ops.matmul(members.swapaxes(0, 1), weighted.reshape(B, N * C)))
    means = sums.reshape(C, N, C) / ops.maximum(counts, 1.0).reshape(C, 1, 1)
    q = ops.clamp(ops.softmax(means, -1), 1e-8, 1.0)
    log_q = ops.log(q)
    # sum_{m,k} KL(q_m || q_k) = N sum_m <q_m, log q_m> - <sum_m q_m, sum_k log q_k>
    pairs = N * (q * log_q).sum((1, 2)) - (q.sum(1) * log_q.sum(1)).sum(1)
    return (pairs * (counts > 0).astype(pairs.dtype)).sum() / (C * N)


def diversity_loss(scores, prior):
    """DATE's L_dc: every feature is to be told as its source's; scores (B,N,N), prior (N,)."""
    own = ops.eye(scores.shape[1], scores.shape[1], scores.dtype)
    # Not log_softmax: MindSpore's rounds float64 to seven digits.
    told = ranks.batch_mean((scores * own).sum(-1) - ops.logsumexp(scores, -1))  # (N,)
    return -(prior * told).sum() / prior.sum()
