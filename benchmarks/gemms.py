"""The matrix products of a step, by formula: what a step would take if nothing else took time.

The `official` profile: the attention sees its inputs without a gradient, so its products have
gradients of weights and none of inputs.
"""

import time
from dataclasses import dataclass
from statistics import median


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
    ]
    if method == "aten":
        return [
            *products,
            Product("own outputs", N, batch, D, C),
            Product("own outputs, dx", N, batch, C, D),
        ]
    return [
        *products,
        Product("cross outputs", 1, N * batch, D, N * C),
        Product("cross outputs, dx", 1, N * batch, N * C, D),
        Product("output keys", N, N * batch, C, J),
        Product("output keys, dW", N, C, N * batch, J),
    ]


def seconds_of(products, multiply, repeats=15):
    """Each product's median time under `multiply(batch, rows, inner, columns)`, a closure maker."""
    seconds = {}
    for product in products:
        call = multiply(product.batch, product.rows, product.inner, product.columns)
        taken = []
        for _ in range(repeats):
            started = time.perf_counter()
            call()
            taken.append(time.perf_counter() - started)
        seconds[product.name] = median(taken[repeats // 3 :])
    return seconds


def mindspore_multiply(batch, rows, inner, columns):
    import numpy as np
    from mindspore import Tensor, ops

    rng = np.random.default_rng(0)
    a = Tensor(rng.standard_normal((batch, rows, inner), np.float32))
    b = Tensor(rng.standard_normal((batch, inner, columns), np.float32))
    product = ops.BatchMatMul()
    return lambda: product(a, b)


def torch_multiply(batch, rows, inner, columns):
    import torch

    a, b = torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)
    return lambda: torch.bmm(a, b)
