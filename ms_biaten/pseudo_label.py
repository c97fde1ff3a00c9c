"""Dynamic-cluster pseudo labels: Eqs. (11)-(14), without a (B,C,D) tensor.

Shapes: B batch, N sources, C classes, D bottleneck width.
"""

from mindspore import ops

from ms_biaten.quick import PRODUCT, ROW_BY_ROW, mixtures, ones

MASS_FLOOR = 1e-8  # below it nobody predicts the class: no centroid, never a label


def ensemble_probability(y, own):
    """Paper: every source's centroids weighted by the ensemble's softmax: (B,N,C)."""
    return ops.broadcast_to(ops.softmax(y, -1).expand_dims(1), own.shape)


def own_probability(y, own):
    """Released code: each source's centroids weighted by its own softmax: (B,N,C)."""
    return ops.softmax(own, -1)


CENTROID_WEIGHT = {"ensemble": ensemble_probability, "own": own_probability}


def weighted_sums(p, phi):
    """What a batch adds to Eq. (11): sums (N,C,D) and mass (N,C), from p (B,N,C), phi (B,N,D)."""
    return ops.bmm(p.transpose(1, 2, 0), phi.swapaxes(0, 1)), p.sum(0)


def centroids(sums, mass):
    """Eq. (11): mu (N,C,D), the weighted mean feature of each class; zero for an empty class."""
    return sums / ops.maximum(mass, MASS_FLOOR).expand_dims(2)


def by_class(mu):
    """mu (N,C,D) as (C,N*D), a class's centroids side by side."""
    return mu.swapaxes(0, 1).reshape(mu.shape[1], -1)


def gram(mu):
    """Products of a class's N centroids, (N*N, C): all that their mixtures' lengths need."""
    by_class = mu.swapaxes(0, 1)  # (C,N,D)
    products = ops.bmm(by_class, by_class.swapaxes(1, 2))  # (C,N,N)
    return products.reshape(mu.shape[1], -1).T


def empty_penalty(mass):
    """(1,C): zero, or so much for a class that no source predicts that it is never nearest."""
    return 1e30 * (ops.amax(mass, 0, True) <= MASS_FLOOR).astype(mass.dtype)


def settled(mu, mass):
    """What `class_distances` needs of the centroids, once for all batches."""
    return by_class(mu), gram(mu), empty_penalty(mass)


def mixed_feature(phi, beta):
    """Eq. (13): phi~ (B,D) = sum_i beta_i phi_i."""
    return ops.bmm(beta.expand_dims(1), phi).squeeze(1)


def mixed_centroids(mixed, beta, mu, products):
    """Eq. (12): mu~_c = sum_i beta_i mu_c^i, as phi~ . mu~_c and |mu~_c|^2, both (B,C)."""
    N, C, D = mu.shape
    each = ROW_BY_ROW(mixed, mu.reshape(N * C, D)).reshape(-1, N, C)  # phi~ . mu_c^i
    pairs = (beta.expand_dims(2) * beta.expand_dims(1)).reshape(-1, N * N)
    dots = ops.bmm(beta.expand_dims(1), each).squeeze(1)
    return dots, ops.maximum(ops.matmul(pairs, products), 0.0)


# Distances without what is the same for all classes of a sample: |phi~|^2, or 1 and 1 / |phi~|.


def cosine_distance(dots, squares):
    """Paper: by the cosine."""
    return -dots * ops.rsqrt(ops.maximum(squares, 1e-16))


def euclidean_distance(dots, squares):
    """Released code: by |phi~ - mu~|^2."""
    return squares - 2 * dots


LABEL_DISTANCE = {"cosine": cosine_distance, "euclidean": euclidean_distance}


def class_distances(phi, beta, centers, products, penalty, choice):
    """What orders the classes (B,C): each sample's mixed feature to each of its mixed centroids."""
    dots, squares = mixtures(phi, beta, centers, products)
    return choice(dots, squares) + PRODUCT(ones((phi.shape[0], 1), phi.dtype), penalty)


def nearest_class(distances):
    """Eq. (14): the label (B,)."""
    return distances.argmin(1)
