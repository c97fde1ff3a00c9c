"""PyTorch's SGD and AdamW in MindSpore: one group of parameters, a learning rate for every step."""

from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype


class Sgd:
    """`step(gradients, lr)` updates the parameters; `state()` is what a resumed run needs."""

    def __init__(self, parameters, weight_decay, momentum, nesterov):
        self.parameters = list(parameters)
        # As a group: outside of one, MindSpore leaves every "gamma" and "beta" without decay.
        group = {"params": self.parameters, "weight_decay": weight_decay}
        settings = {"learning_rate": 0.1, "momentum": momentum}
        if momentum and not nesterov:
            # Quicker than the other, but on CPU its kernel ignores `use_nesterov`.
            optimizer = nn.Momentum([group], **settings)
            self.moments = optimizer.moments
        else:
            optimizer = nn.SGD([group], **settings, nesterov=nesterov)
            self.moments = optimizer.accum
            for first in optimizer.stat:
                # "No step yet: forget the momentum". From zero that changes nothing, but it would
                # make a resumed run forget the momentum it has just loaded.
                first.set_data(ops.zeros_like(first))
        self.parameters = list(optimizer.parameters)
        for own in optimizer.get_parameters():
            if "." not in own.name:  # learning_rate and the like: a graph may hold two optimisers
                own.name = f"{own.name}.{self.parameters[0].name}"
        self.step = sgd_step(optimizer)

    def state(self):
        """(kind, parameter, tensor) of everything that is kept."""
        pairs = zip(self.parameters, self.moments, strict=True)
        return [("momentum", p.name, moment) for p, moment in pairs]


def sgd_step(optimizer):
    def step(gradients, lr):
        ops.assign(optimizer.learning_rate, lr)
        optimizer(tuple(gradients))

    return step


class AdamW:
    """Written out: `nn.AdamWeightDecay` has no bias correction."""

    def __init__(self, parameters, weight_decay, betas=(0.9, 0.999), epsilon=1e-8):
        self.parameters = list(parameters)
        kept = {
            kind: [Parameter(ops.zeros_like(p), f"{kind}.{p.name}") for p in self.parameters]
            for kind in ("mean", "square")
        }
        kept["step"] = [
            Parameter(Tensor(0.0, mstype.float32), f"step.{p.name}") for p in self.parameters
        ]
        self.kept = kept
        self.step = adamw_step(self.parameters, kept, weight_decay, betas, epsilon)

    def state(self):
        """(kind, parameter, tensor) of everything that is kept."""
        return [
            (kind, p.name, tensor)
            for kind, tensors in self.kept.items()
            for p, tensor in zip(self.parameters, tensors, strict=True)
        ]


def adamw_step(parameters, kept, weight_decay, betas, epsilon):
    first, second = betas
    means, squares, steps = kept["mean"], kept["square"], kept["step"]
    count = len(parameters)

    def step(gradients, lr):
        for i in range(count):
            gradient = gradients[i]
            t = steps[i] + 1.0
            mean = first * means[i] + (1 - first) * gradient
            square = second * squares[i] + (1 - second) * ops.square(gradient)
            length = ops.sqrt(square) / ops.sqrt(1 - ops.pow(second, t)) + epsilon
            moved = mean / length * (lr / (1 - ops.pow(first, t)))
            ops.assign(parameters[i], parameters[i] * (1 - lr * weight_decay) - moved)
            ops.assign(means[i], mean)
            ops.assign(squares[i], square)
            ops.assign(steps[i], t)

    return step
