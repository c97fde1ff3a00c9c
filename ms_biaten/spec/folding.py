"""Batch normalisation of frozen statistics, folded into the linear layer before it."""

from __future__ import annotations

import numpy as np

from ms_biaten.spec.weights import Arrays

Norm = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # gamma, beta, mean, variance


def scale_and_shift(norm: Norm, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """y = scale x + shift, in float64: it is rounded once, with what it is folded into."""
    gamma, beta, mean, variance = norm
    scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return scale, beta - mean * scale


def fold_bottlenecks(arrays: Arrays, epsilon: float = 1e-5) -> tuple[np.ndarray, np.ndarray]:
    """Weight (N,R,D) and bias (N,1,D) of all bottlenecks, from the model's arrays by name."""
    weight, bias = arrays["bottlenecks.weight"], arrays["bottlenecks.bias"]
    norm = (
        arrays["bottlenecks.norm.weight"],
        arrays["bottlenecks.norm.bias"],
        arrays["bottlenecks.norm.running_mean"],
        arrays["bottlenecks.norm.running_var"],
    )
    scale, shift = (x.reshape(bias.shape) for x in scale_and_shift(norm, epsilon))
    return (weight * scale).astype(np.float32), (bias * scale + shift).astype(np.float32)


def fold_convolution(
    weight: np.ndarray, norm: Norm, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weight (O,I,h,w) and bias (O,) of a convolution with the batch normalisation after it."""
    scale, shift = scale_and_shift(norm, epsilon)
    return (weight * scale[:, None, None, None]).astype(np.float32), shift.astype(np.float32)
