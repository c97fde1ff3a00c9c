"""Where each equation of the paper stands: the same module and name in both frameworks."""

from __future__ import annotations

EQUATIONS = {
    1: ("attention", "cross_outputs", "outputs of every feature under every classifier"),
    2: ("attention", "intra_similarity", "cosine of a feature and its cross-domain outputs"),
    3: ("attention", "intra_weights", "alpha: which classifier suits this feature"),
    4: ("attention", "assemble", "y~: a source's output, assembled with alpha"),
    5: ("losses", "intra_loss", "L_intra: IM loss of every source's output"),
    6: ("losses", "im_loss", "L_IM: confident on each sample, diverse over the batch"),
    7: ("attention", "feature_keys", "keys: features under W^F"),
    8: ("attention", "joint_query", "query: concatenated features under W^QF"),
    9: ("attention", "inter_weights", "beta: which source to trust"),
    10: ("attention", "ensemble", "y: the sources' outputs, weighted with beta"),
    11: ("pseudo_label", "centroids", "mu: class centroids of every source"),
    12: ("pseudo_label", "mixed_centroids", "a sample's own centroids, mixed with its beta"),
    13: ("pseudo_label", "mixed_feature", "a sample's feature, mixed with its beta"),
    14: ("pseudo_label", "nearest_class", "pseudo label: the nearest mixed centroid"),
    15: ("losses", "inter_loss", "L_inter: cross entropy and IM loss of the ensemble"),
    16: ("losses", "total_loss", "L = L_inter + lambda L_intra"),
    17: ("adapt", "Adapter", "attention and bottlenecks minimise L"),
}
