"""Bi-level attention: Eqs. (1)-(4) within a source, Eqs. (7)-(10) between sources.

Shapes: B batch, N sources, D bottleneck width, C classes, H heads of width E.
Projections have G groups along their first axis: one for all sources, or one for each.
"""

from mindspore import Parameter, nn, ops

from ms_biaten import quick
from ms_biaten.joined import joined_shape
from ms_biaten.quick import PRODUCT, affine, inverse_length, with_one

TURNED = (1, 0, 2)  # sources first, or back: `x.swapaxes(0, 1)` takes many times as long to compile
FEW_CLASSES = 4  # times C at most E: the cosines of Eq. (2) are cheaper without their keys


def cross_outputs(phi, weight, bias):
    """Eq. (1): O (B,N,N,C), feature i under classifier j; (N,B,N,C) of phi with sources first.

    weight (N,D,C), bias (N,C).
    """
    first, second, D = phi.shape
    N, _, C = weight.shape
    # One plain product of (B*N, D) and (D, N*C) instead of N*N small ones.
    joined = ops.transpose(weight, (1, 0, 2)).reshape(1, D, N * C)
    all_of = affine(phi.reshape(1, -1, D), joined, bias.reshape(1, 1, N * C))
    return all_of.reshape(first, second, N, C)


def own_outputs(phi, weight, bias):
    """y^ii (B,N,C): every feature under its own source's classifier."""
    rows = affine(ops.transpose(phi, TURNED), weight, ops.expand_dims(bias, 1))
    return ops.transpose(rows, TURNED)


def project(x, weight, bias, heads):
    """x (N,S,K) under the projection of its source: (N,S,H,E); weight (G,K,H*E)."""
    N, S, K = x.shape
    G, _, joined = weight.shape
    y = affine(x.reshape(G, N * S // G, K), weight, bias)  # (G, N*S/G, H*E)
    return y.reshape(N, S, heads, joined // heads)


def unit(x):
    """x scaled to length 1 along its last axis; a zero vector stays zero."""
    return x * inverse_length(ops.square(x).sum(-1, keepdims=True))


def feature_keys(phi, weight, bias, heads):
    """Eq. (7): keys phi W^F (N,B,H,E); W^F is shared with Eq. (2)."""
    return project(ops.transpose(phi, TURNED), weight, bias, heads)


def output_keys(outputs, weight, bias, heads):
    """O W^O of Eq. (2): (N,B,N,H,E)."""
    B, N, _, C = outputs.shape
    keys = project(outputs.swapaxes(0, 1).reshape(N, B * N, C), weight, bias, heads)
    return keys.reshape(N, B, N, heads, -1)


def intra_similarity(features, outputs):
    """Eq. (2): cosines (B,N,N,H) of phi W^F (N,B,H,E) and O W^O (N,B,N,H,E)."""
    return (unit(features).expand_dims(2) * unit(outputs)).sum(-1).swapaxes(0, 1)


def tempered(similarity, temperature):
    """One is the default, and a kernel less."""
    return similarity if temperature == 1 else similarity / temperature


def mean_then_softmax(similarity, temperature):
    """Supplement, multi-head: (..., N, H) -> (..., N), the cosines averaged over heads."""
    return ops.softmax(tempered(ops.mean(similarity, -1), temperature), -1)


def softmax_then_mean(similarity, temperature):
    """Released code: a softmax per head, then the mean of the weights."""
    N, H = similarity.shape[-2:]
    rows = tempered(similarity, temperature).reshape(-1, N, H)
    return quick.SOFTMAX_THEN_MEAN(rows)[0].reshape(similarity.shape[:-1])


def through(x):
    return x


HEADS = {"mean_then_softmax": mean_then_softmax, "softmax_then_mean": softmax_then_mean}
GRADIENT = {"through": through, "detached": ops.stop_gradient}


def intra_weights(similarity, temperature, reduce_heads):
    """Eq. (3): alpha (B,N,N), row i weighs the classifiers for feature i."""
    return reduce_heads(similarity, temperature)


def assemble(alpha, outputs):
    """Eq. (4): y~ (B,N,C) = sum_j alpha_ij O_ij; sources first where its inputs are."""
    first, second, N, C = outputs.shape
    rows = ops.bmm(alpha.reshape(-1, 1, N), outputs.reshape(-1, N, C))
    return rows.reshape(first, second, C)


def joint_query(phi, weight, bias, heads):
    """Eq. (8): concatenated features under W^QF (N*D, H*E): (B,H,E)."""
    B, N, D = phi.shape
    joint = phi.reshape(B, N * D)
    # Not `affine`: of a weight, even a shape that adds an axis is a copy.
    if bias is None:
        return PRODUCT(with_one(joint, (B, 1)), weight).reshape(B, heads, -1)
    return (PRODUCT(joint, weight) + bias).reshape(B, heads, -1)


def inter_weights(query, keys, temperature, reduce_heads):
    """Eq. (9): beta (B,N) from query (B,H,E) and keys (N,B,H,E)."""
    similarity = (unit(query).expand_dims(0) * unit(keys)).sum(-1)  # (N,B,H)
    return reduce_heads(similarity.swapaxes(0, 1), temperature)


def ensemble(beta, outputs):
    """Eq. (10): y (B,C) = sum_i beta_i y~_i."""
    B, _, C = outputs.shape
    return ops.bmm(ops.expand_dims(beta, 1), outputs).reshape(B, C)


class Projection(nn.Cell):
    """A linear layer with bias per head, and per source where the profile says so."""

    def __init__(self, shape, bias_shape):
        super().__init__()
        self.joined = Parameter(ops.zeros(joined_shape(shape)))  # its last row is the bias


def weights_of(attention, phi):
    """Eqs. (7)-(9): beta (B,N) of features under W^F and W^QF."""
    seen, feature, heads = attention.gradient(phi), attention.feature, attention.heads
    reduced = attention.temperature, attention.reduce_heads
    query = joint_query(seen, attention.query.joined, None, heads)
    if feature.joined.shape[0] == 1:  # one W^F for all sources: they need not come first
        keys = project(seen, feature.joined, None, heads)  # (B,N,H,E)
        return quick.sample_weights(query, keys, *reduced)
    keys = feature_keys(seen, feature.joined, None, heads)
    return quick.inter_weights(query, keys, *reduced)


def one_hot_outputs(attention, phi, weight, bias):
    """With the one-hot alpha y~^i = y^ii: no cross-domain outputs, no keys of them."""
    own = own_outputs(phi, weight, bias)
    beta = weights_of(attention, phi)
    return own, attention.gradient(own), one_hot_alpha(phi), beta, ensemble(beta, own)


class BiATEN(nn.Cell):
    """Both levels. `learned` is 1.0 in epochs with learned alpha, 0.0 in one-hot epochs.

    None: alpha is one-hot and nobody asks for the learned one, so it is not computed.
    """

    def __init__(self, config, sizes, shapes):
        super().__init__()
        self.heads, self.temperature = sizes.heads, config.attention.temperature
        self.reduce_heads = HEADS[config.profile.heads]
        self.gradient = GRADIENT[config.profile.gradient]
        few = FEW_CLASSES * sizes.classes <= sizes.embedding
        self.similarity = quick.keyless_similarity if few else quick.keyed_similarity
        self.feature = Projection(*(shapes[f"attention.feature.{k}"] for k in ("weight", "bias")))
        self.output = Projection(*(shapes[f"attention.output.{k}"] for k in ("weight", "bias")))
        self.query = Projection(*(shapes[f"attention.query.{k}"] for k in ("weight", "bias")))

    def construct(self, phi, weight, bias, learned):
        if learned is None:
            return one_hot_outputs(self, phi, weight, bias)
        own = own_outputs(phi, weight, bias)  # apart: detached, the others have no gradient
        seen = self.gradient(phi)
        outputs = cross_outputs(ops.transpose(seen, TURNED), weight, bias)  # (N,B,N,C)

        keys = feature_keys(seen, self.feature.joined, None, self.heads)
        similarity = self.similarity(keys, outputs, self.output.joined, None)
        alpha = intra_weights(similarity, self.temperature, self.reduce_heads)  # (N,B,N)
        assembled = ops.transpose(assemble(alpha, outputs), TURNED)  # (B,N,C)

        query = joint_query(seen, self.query.joined, None, self.heads)
        beta = quick.inter_weights(query, keys, self.temperature, self.reduce_heads)
        y = ensemble(beta, learned * assembled + (1 - learned) * own)
        return own, assembled, ops.transpose(alpha, TURNED), beta, y


class ATEN(nn.Cell):
    """The light form: alpha is one-hot, so y~^i = y^ii and W^O falls away."""

    def __init__(self, config, sizes, shapes):
        super().__init__()
        self.heads, self.temperature = sizes.heads, config.attention.temperature
        self.reduce_heads = HEADS[config.profile.heads]
        self.gradient = GRADIENT[config.profile.gradient]
        self.feature = Projection(*(shapes[f"attention.feature.{k}"] for k in ("weight", "bias")))
        self.query = Projection(*(shapes[f"attention.query.{k}"] for k in ("weight", "bias")))

    def construct(self, phi, weight, bias, learned):
        return one_hot_outputs(self, phi, weight, bias)


class Uniform(nn.Cell):
    """The control: every source weighs 1/N, nothing is learned here."""

    def __init__(self, config, sizes, shapes):
        super().__init__()
        self.gradient = GRADIENT[config.profile.gradient]

    def construct(self, phi, weight, bias, learned):
        own = own_outputs(phi, weight, bias)
        beta = ops.full(phi.shape[:2], 1 / phi.shape[1], dtype=phi.dtype)
        return own, self.gradient(own), one_hot_alpha(phi), beta, ensemble(beta, own)


def one_hot_alpha(phi):
    """alpha (B,N,N) with a one where classifier and feature are of the same source."""
    B, N, _ = phi.shape
    return ops.broadcast_to(ops.eye(N, N, phi.dtype), (B, N, N))


ATTENTION = {
    "bi_aten": BiATEN,
    "aten": ATEN,
    "uniform": Uniform,
    "avg_ens": Uniform,
    "bn_only": Uniform,
}
