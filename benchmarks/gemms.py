"""The matrix products of a step, by formula: what a step would take if nothing else took time.

The `official` profile: the attention sees its inputs without a gradient, so its products have
gradients of weights and none of inputs.
"""

import time
from dataclasses import dataclass
from statistics import median

import numpy as np


@dataclass(frozen=True)
class Product:
    """`batch` times (rows, inner) x (inner, columns)."""

    name: str
    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def multiply_adds(self):
        return self.batch * self.rows * self.inner * self.columns


def step_products(sizes, batch, method):
    """Forward and backward of one step."""
    N, R, D, C = sizes.sources, sizes.raw, sizes.width, sizes.classes
    J, groups = sizes.heads * sizes.embedding, 1 if method == "aten" else sizes.sources
    S = N * batch // groups  # rows of a group of W^F
    products = [
        Product("bottlenecks", N, batch, R, D),
        Product("bottlenecks, dW", N, R, batch, D),
        Product("feature keys", groups, S, D, J),
        Product("feature keys, dW", groups, D, S, J),
        Product("query", 1, batch, N * D, J),
        Product("query, dW", 1, N * D, batch, J),
        Product("labels", 1, batch, D, N * C),
        Product("own outputs", N, batch, D, C),
        Product("own outputs, dx", N, batch, C, D),
    ]
    if method == "aten":
        return products
    return [
        *products,
        Product("cross outputs", 1, N * batch, D, N * C),
        Product("output keys", N, N * batch, C, J),
        Product("output keys, dW", N, C, N * batch, J),
    ]


def evaluation_products(sizes, batch):
    """One chunk of a pass, alpha one-hot: outputs, weights and the sums of the centroids."""
    N, R, D, C = sizes.sources, sizes.raw, sizes.width, sizes.classes
    J = sizes.heads * sizes.embedding
    return [
        Product("bottlenecks", N, batch, R, D),
        Product("feature keys", N, batch, D, J),
        Product("query", 1, batch, N * D, J),
        Product("own outputs", N, batch, D, C),
        Product("centroids", N, C, batch, D),
    ]


def epoch_seconds(sizes, samples, batch, chunk, multiplied):
    """Bi-ATEN: the steps of an epoch, then its evaluation, if there were nothing but products."""
    step = seconds_of(step_products(sizes, batch, "bi_aten"), multiplied)
    look = seconds_of(evaluation_products(sizes, chunk), multiplied)
    return samples / batch * step + samples / chunk * look


REPEATED = 20


def seconds_of(products, multiplied, repeats=10):
    """The time of all of them, one after the other: a median of means over `REPEATED`."""
    rng = np.random.default_rng(0)
    factors = [
        (
            rng.standard_normal((p.batch, p.rows, p.inner), np.float32),
            rng.standard_normal((p.batch, p.inner, p.columns), np.float32),
        )
        for p in products
    ]
    call, taken = multiplied(factors), []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return median(taken[repeats // 2 :]) / REPEATED


def in_mindspore(factors):
    """`REPEATED` times in one graph, one after the other, as most are in a step.

    Independent ones would share the cores. And a graph of at most a hundred kernels is run by its
    caller, which waits for them in a loop that takes half a core; a step has more.
    """
    from mindspore import Tensor, ops

    from ms_biaten.runtime import Graph

    count, product = len(factors), ops.BatchMatMul()

    def all_of(*tensors):
        last = tensors[0]
        for _ in range(REPEATED):
            for i in range(count):
                last = product(ops.depend(tensors[2 * i], last), tensors[2 * i + 1])
        return last

    graph = Graph(all_of)
    tensors = [Tensor(array) for pair in factors for array in pair]
    return lambda: graph(*tensors)


def in_torch(factors):
    """By the quickest product that PyTorch has, which the authors' structure does not ask for."""
    import torch

    from torch_ref.products import product

    tensors = [
        (torch.from_numpy(a), torch.from_numpy(b))
        for matrices in factors
        for a, b in zip(*matrices, strict=True)
    ]

    def all_of():
        for _ in range(REPEATED):
            for a, b in tensors:
                product(a, b)

    return all_of
