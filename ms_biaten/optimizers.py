"""PyTorch's SGD and AdamW in MindSpore: one group of parameters, a learning rate for every step."""

from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore import dtype as mstype

# A function over every tensor of a tuple. Not a comprehension: compiled, one recurses for each of
# them, and a few backbones have more than the 1000 that MindSpore allows.
EACH = ops.HyperMap()


def times(factor, x):
    return x * factor


class Sgd:
    """`step(gradients, lr, factor)` updates the parameters by `factor` times the gradients.

    `state()` is what a resumed run needs; it holds from `settle()` on, once an epoch.
    """

    def __init__(self, parameters, weight_decay, momentum, nesterov):
        self.parameters = list(parameters)
        self.scale = None
        if momentum and not nesterov:  # on CPU, MindSpore's kernel ignores `use_nesterov`
            first = self.parameters[0].name
            self.moments = ParameterTuple(
                Parameter(ops.zeros_like(p), f"moments.{p.name}") for p in self.parameters
            )
            self.scale = Parameter(Tensor(1.0, mstype.float32), f"moment_scale.{first}")
            self.step = momentum_step(
                self.parameters, self.moments, self.scale, weight_decay, momentum
            )
            return
        # As a group: outside of one, MindSpore leaves every "gamma" and "beta" without decay.
        group = {"params": self.parameters, "weight_decay": weight_decay}
        optimizer = nn.SGD([group], learning_rate=0.1, momentum=momentum, nesterov=nesterov)
        self.moments = optimizer.accum
        for first in optimizer.stat:
            # "No step yet: forget the momentum". From zero that changes nothing, but it would make
            # a resumed run forget the momentum it has just loaded.
            first.set_data(ops.zeros_like(first))
        self.parameters = list(optimizer.parameters)
        for own in optimizer.get_parameters():
            if "." not in own.name:  # learning_rate and the like: a graph may hold two optimisers
                own.name = f"{own.name}.{self.parameters[0].name}"
        self.step = sgd_step(optimizer)

    def settle(self):
        """The moments at their own scale, so that a resumed run goes on with the same bits."""
        if self.scale is None or float(self.scale.asnumpy()) == 1.0:
            return
        for moment in self.moments:
            moment.set_data(moment * self.scale)
        self.scale.set_data(Tensor(1.0, mstype.float32))

    def state(self):
        """(kind, parameter, tensor) of everything that is kept."""
        pairs = zip(self.parameters, self.moments, strict=True)
        return [("momentum", p.name, moment) for p, moment in pairs]


def momentum_step(parameters, moments, scale, weight_decay, momentum):
    """The factor goes into the rate and the momentum: a pass over all gradients less.

    The moments a are kept as a' = a / s. Then a <- m a + c g is a' <- (m s / c) a' + g, and s <- c.
    """
    trained, apply = ParameterTuple(parameters), ops.ApplyMomentum()

    def update(lr, kept, decay, parameter, moment, gradient):
        if weight_decay:
            gradient = gradient + decay * parameter
        apply(parameter, moment, lr, gradient, kept)
        return True

    def step(gradients, lr, factor):
        kept, decay = momentum * scale / factor, weight_decay / factor
        each = ops.partial(update, lr * factor, kept, decay)
        EACH(each, trained, moments, tuple(gradients))
        ops.assign(scale, factor)

    return step


def sgd_step(optimizer):
    def step(gradients, lr, factor=None):
        if factor is not None:
            gradients = EACH(ops.partial(times, factor), tuple(gradients))
        ops.assign(optimizer.learning_rate, lr)
        optimizer(tuple(gradients))

    return step


class AdamW:
    """Written out: `nn.AdamWeightDecay` has no bias correction."""

    def __init__(self, parameters, weight_decay, betas=(0.9, 0.999), epsilon=1e-8):
        self.parameters = list(parameters)
        self.kept = {
            kind: ParameterTuple(Parameter(start(p), f"{kind}.{p.name}") for p in self.parameters)
            for kind, start in (
                ("mean", ops.zeros_like),
                ("square", ops.zeros_like),
                ("step", zero),
            )
        }
        self.step = adamw_step(self.parameters, self.kept, weight_decay, betas, epsilon)

    def state(self):
        """(kind, parameter, tensor) of everything that is kept."""
        return [
            (kind, p.name, tensor)
            for kind, tensors in self.kept.items()
            for p, tensor in zip(self.parameters, tensors, strict=True)
        ]


def zero(_):
    return Tensor(0.0, mstype.float32)


def adamw_step(parameters, kept, weight_decay, betas, epsilon):
    first, second = betas
    trained = ParameterTuple(parameters)
    means, squares, steps = kept["mean"], kept["square"], kept["step"]

    def update(lr, parameter, mean, square, step, gradient):
        t = step + 1.0
        m = first * mean + (1 - first) * gradient
        v = second * square + (1 - second) * ops.square(gradient)
        length = ops.sqrt(v) / ops.sqrt(1 - ops.pow(second, t)) + epsilon
        moved = m / length * (lr / (1 - ops.pow(first, t)))
        ops.assign(parameter, parameter * (1 - lr * weight_decay) - moved)
        ops.assign(mean, m)
        ops.assign(square, v)
        ops.assign(step, t)
        return True

    def step(gradients, lr):
        EACH(ops.partial(update, lr), trained, means, squares, steps, tuple(gradients))

    return step
