"""Several workers, started by `msrun`: the one place that knows of them. Alone, all is identity.

Every worker computes the loss of the *global* batch: means over its samples are sums over all
workers. The gradient of such a sum is the same sum, of the gradients that all workers hand back; so
a worker's gradient is that of the loss times the number of workers, as far as it goes through its
own rows, and the mean over the workers is the gradient of the loss: `shared`.
"""

import numpy as np
from mindspore import Tensor, communication, ops
from mindspore import dtype as mstype

from ms_biaten.optimizers import EACH
from ms_biaten.spec.errors import RunError
from ms_biaten.spec.workers import Workers, asked
from ms_biaten.watch import watch

EXACT = 1 << 24  # whole numbers below it are exact in float32, which is what can travel on a CPU

_size, _rank, _team = 1, 0, Workers()
_reduce = _gather = None


def start():
    """Joins the others, where `msrun` started several; once, and before the first kernel."""
    global _size, _rank, _team, _reduce, _gather
    if _size > 1 or asked() < 2:
        return
    try:
        communication.init()  # `msrun`'s scheduler runs the same command, and stays in here
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise RunError(f"the workers lost each other, or never met: {reason}") from None
    _size, _rank = communication.get_group_size(), communication.get_rank()
    _reduce, _gather = ops.AllReduce(), ops.AllGather()
    _team = Team(_rank, _size)


def workers():
    """All of them, as `spec.algorithm` sees them."""
    return _team


def size():
    return _size


# -- inside a step --------------------------------------------------------------------------------


def total(x):
    """The sum of a tensor over all workers."""
    if _size == 1:
        return x
    return _reduce(x.reshape(-1)).reshape(x.shape)


def rows(own):
    """The number of rows of the global batch, of which this worker has `own`."""
    if _size == 1:
        return own
    return total(ops.full((1,), own, dtype=mstype.float32))


def batch_mean(x):
    """Mean over the first axis of the global batch, of which workers may hold unequal parts."""
    if _size == 1:
        return x.mean(0)
    count = ops.full((1,), float(x.shape[0]), dtype=x.dtype)
    sums = total(ops.cat((x.sum(0).reshape(-1), count)))
    return (sums[:-1] / sums[-1]).reshape(x.shape[1:])


def shared(gradients):
    """The gradients of the global loss from each worker's own, in one message."""
    sizes = [g.size for g in gradients]
    flat = total(ops.cat(EACH(flattened, gradients))) / _size
    parts, start = [], 0
    for gradient, count in zip(gradients, sizes):  # noqa: B905  (no strict in graphs)
        parts.append(flat[start : start + count].reshape(gradient.shape))
        start = start + count
    return tuple(parts)


def flattened(x):
    return x.reshape(-1)


# -- between steps --------------------------------------------------------------------------------


def gathered(array):
    """Rows of all workers, in their order, for all of them: arrays that differ in length alone."""
    if _size == 1:
        return array
    counts = _exchanged(np.array([[len(array)]], np.float32)).astype(int).ravel()
    if array.dtype == np.float64:  # as two numbers: 48 of its 53 bits
        high = array.astype(np.float32)
        return _rows(high, counts) + _rows((array - high).astype(np.float32), counts, np.float64)
    if array.dtype.kind in "iu" and array.size and np.abs(array).max() >= EXACT:
        raise OverflowError("whole numbers from 2^24 on do not travel between workers")
    return _rows(array.astype(np.float32), counts, array.dtype)


def count(own):
    """The sum of a whole number over all workers."""
    return int(gathered(np.array([own])).sum())


def _rows(array, counts, dtype=np.float64):
    if not max(counts):
        return array.astype(dtype)
    padded = np.zeros((max(counts), *array.shape[1:]), np.float32)
    padded[: len(array)] = array
    parts = _exchanged(padded).reshape(_size, *padded.shape)
    return np.concatenate([p[:c] for p, c in zip(parts, counts, strict=True)]).astype(dtype)


def _exchanged(array):
    return _gather(Tensor.from_numpy(np.ascontiguousarray(array))).asnumpy()


class Team(Workers):
    """This worker among the others."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.watch = watch(gathered, rank)

    def gathered(self, array):
        return gathered(array)

    def wait(self):
        gathered(np.zeros(1, np.float32))

    def begin(self, go_on):
        self.watch.begin(go_on)

    def leave(self):
        self.watch.end()
        self.wait()
