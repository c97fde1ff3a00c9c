"""Runs a case in MindSpore (both modes), PyTorch and the oracle, and compares what comes out."""

import importlib
import zlib

import numpy as np

from ms_biaten.runtime import Graph, prepare  # isort: skip  (settles MindSpore's log level)
import mindspore as ms
import torch

from ms_biaten.spec.config import Config
from parity_tests import oracle
from parity_tests.cases import Choice

MODES = ("pynative", "graph")
PACKAGES = {"mindspore": "ms_biaten", "torch": "torch_ref"}

prepare(Config())
torch.set_num_threads(1)  # MindSpore's threads would starve torch's in one process


def error(one, other):
    """Largest difference; relative to the largest value where that exceeds 1. NaN is infinite."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if one.shape != other.shape:
        raise AssertionError(f"shapes differ: {one.shape} and {other.shape}")
    if one.size == 0:
        raise AssertionError("nothing to compare")
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.inf
    return float(np.abs(one - other).max() / max(1.0, np.abs(other).max()))


def worst(ours, theirs):
    """Largest error over two results of the same outputs."""
    if len(ours) != len(theirs):
        raise AssertionError(f"{len(ours)} outputs against {len(theirs)}")
    return max(error(a, b) for a, b in zip(ours, theirs, strict=True))


def draw(case):
    """Inputs, seeded by the case's name."""
    return case.inputs(np.random.default_rng(zlib.crc32(case.name.encode())))


def cotangents(case, outputs):
    """A random weight for every output: the gradient of a plain sum may be zero by symmetry."""
    rng = np.random.default_rng(zlib.crc32(b"cotangent " + case.name.encode()))
    drawn = [rng.normal(size=np.shape(output)) for output in outputs]
    count = len(drawn) if case.with_gradient is None else case.with_gradient
    return [x if index < count else 0.0 * x for index, x in enumerate(drawn)]


def as_tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def resolve(case, package):
    """The function under test and its constants, choices looked up in their tables."""

    def found(dotted):
        module, _, name = dotted.rpartition(".")
        where = oracle if package is None else importlib.import_module(f"{package}.{module}")
        return getattr(where, name)

    constants = {
        key: found(value.table)[value.name] if isinstance(value, Choice) else value
        for key, value in case.constants.items()
    }
    return found(case.function), constants


def run_oracle(case, inputs):
    """Outputs, and gradients by central differences in float64."""
    function, constants = resolve(case, None)

    def outputs_of(values):
        return [np.asarray(o) for o in as_tuple(function(**values, **constants))]

    outputs = outputs_of(inputs)
    weights = cotangents(case, outputs)
    gradients = []
    for name in case.grads:
        gradient = np.zeros(inputs[name].shape)
        for index in np.ndindex(*inputs[name].shape):
            ends = []
            for sign in (1, -1):
                moved = inputs[name].copy()
                moved[index] += sign * 1e-5
                moved_outputs = outputs_of({**inputs, name: moved})
                ends.append(sum((o * w).sum() for o, w in zip(moved_outputs, weights, strict=True)))
            gradient[index] = (ends[0] - ends[1]) / 2e-5
        gradients.append(gradient)
    return outputs, gradients


def run_torch(case, inputs, dtype):
    function, constants = resolve(case, "torch_ref")
    kind = getattr(torch, dtype)
    tensors = {
        name: torch.from_numpy(array)
        if array.dtype.kind == "i"
        else torch.tensor(array, dtype=kind)
        for name, array in inputs.items()
    }
    for name in case.grads:
        tensors[name].requires_grad_(True)
    outputs = as_tuple(function(**tensors, **constants))
    weights = cotangents(case, [o.detach().numpy() for o in outputs])
    gradients = []
    if case.grads:
        total = sum(
            (o * torch.tensor(w, dtype=kind)).sum() for o, w in zip(outputs, weights, strict=True)
        )
        gradients = torch.autograd.grad(total, [tensors[name] for name in case.grads])
    return [o.detach().numpy() for o in outputs], [g.numpy() for g in gradients]


def run_mindspore(case, inputs, dtype, mode):
    function, constants = resolve(case, "ms_biaten")
    kind = getattr(ms, dtype)
    tensors = [
        ms.Tensor(array, ms.int32 if array.dtype.kind == "i" else kind) for array in inputs.values()
    ]
    names = tuple(inputs)

    def call(*values):
        return function(*values, **constants)

    compiled = Graph(call) if mode == "graph" else call
    outputs = [o.asnumpy() for o in as_tuple(compiled(*tensors))]
    weights = tuple(ms.Tensor(w, kind) for w in cotangents(case, outputs))
    gradients = []
    if case.grads:
        single = len(outputs) == 1

        def total(*values):
            made = function(*values, **constants)
            made = (made,) if single else made
            result = (made[0] * weights[0]).sum()
            for output, weight in zip(made[1:], weights[1:]):  # noqa: B905  (no strict in graphs)
                result = result + (output * weight).sum()
            return result

        positions = tuple(names.index(name) for name in case.grads)
        differentiate = ms.grad(total, positions)
        differentiate = Graph(differentiate) if mode == "graph" else differentiate
        gradients = [g.asnumpy() for g in as_tuple(differentiate(*tensors))]
    return outputs, gradients


def check(case, mode, dtype):
    """Errors of one case: forward and gradients, against PyTorch and against the oracle."""
    drawn = draw(case)
    # What float32 rounds away from the inputs is not the functions' error.
    inputs = {
        n: a if a.dtype.kind == "i" else a.astype(dtype).astype(float) for n, a in drawn.items()
    }
    ours, our_gradients = run_mindspore(case, inputs, dtype, mode)
    theirs, their_gradients = run_torch(case, inputs, dtype)
    truth, true_gradients = run_oracle(case, inputs)
    errors = {"torch": worst(ours, theirs), "oracle": worst(ours, truth)}
    if case.grads:
        errors["torch_grad"] = worst(our_gradients, their_gradients)
        errors["oracle_grad"] = worst(our_gradients, true_gradients)
    return errors
