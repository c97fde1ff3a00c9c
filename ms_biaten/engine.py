"""What every method shares: predicting, updating, and a state that can be saved and resumed."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from ms_biaten.spec.weights import check_arrays, copied, torch_name


def clip_gradients(gradients, limit):
    """Scales all gradients to a joint length of at most `limit`; returns them and the length."""
    # As products: MindSpore sums millions of numbers several times slower than it multiplies them.
    squared = [ops.matmul(g.reshape(1, -1), g.reshape(-1, 1)) for g in gradients]
    length = ops.sqrt(ops.cat(squared).sum())
    scale = ops.minimum(limit / (length + 1e-6), 1.0)
    return [g * scale for g in gradients], length


def make_optimizer(parameters, train):
    """PyTorch's SGD, and its momenta."""
    # As a group: outside of one, MindSpore leaves every "gamma" and "beta" without decay.
    group = {"params": parameters, "weight_decay": train.weight_decay}
    settings = {"learning_rate": train.lr, "momentum": train.momentum}
    if train.momentum and not train.nesterov:
        # Quicker than the other, but on CPU its kernel ignores `use_nesterov`.
        optimizer = nn.Momentum([group], **settings)
        return optimizer, optimizer.moments
    optimizer = nn.SGD([group], **settings, nesterov=train.nesterov)
    for first in optimizer.stat:
        # "No step yet: forget the momentum". From zero that changes nothing, but it would make
        # a resumed run forget the momentum it has just loaded.
        first.set_data(ops.zeros_like(first))
    return optimizer, optimizer.accum


EVALUATE_WITH = {"learned": 1.0, "one_hot": 0.0}


class Engine:
    """A loss over a model, trained by SGD; backbones and classifiers stay frozen."""

    term = ""  # what a method's loss has beside the pseudo labels' and the IM term

    def __init__(self, config, sizes, arrays, objective):
        train = config.train
        self.config, self.sizes = config, sizes
        self.chunk = 0  # the largest chunk that was predicted
        self.objective = objective
        self.model = self.objective.model
        self.trained = {p.name: p for p in self.objective.trainable_params()}
        self.optimizer, self.moments = make_optimizer(list(self.trained.values()), train)
        self.clip_norm = train.clip_norm or float("inf")
        self.evaluate_with = Tensor(EVALUATE_WITH[config.profile.evaluate_with], ms.float32)
        self.clusters = (self.tensor(np.zeros(1, np.float32)),) * 3  # where labels come ready
        # Compiled separately: a compiled function keeps the training flag of its first call.
        compiled = ms.jit if config.run.mode == "graph" else lambda function: function
        self.forward = compiled(forward_of(self.model))
        self.update = compiled(update_of(self.objective, self.optimizer, self.clip_norm))
        self.load({f"model.{name}": array for name, array in arrays.items()})

    # -- the target as a whole -----------------------------------------------------------------

    def predict(self, raw):
        """Outputs of a chunk in evaluation mode, as tensors."""
        self.model.set_train(False)
        self.chunk = max(self.chunk, len(raw))
        short = self.chunk - len(raw)  # a last, shorter chunk is padded: no second compilation
        padded = np.pad(raw, ((0, short), (0, 0), (0, 0))) if short else raw
        outputs = self.forward(self.tensor(padded), self.evaluate_with)
        return tuple(x[: len(raw)] for x in outputs) if short else outputs

    def survey(self, bank, size, survey):
        """One pass over the target: its outputs to `survey`."""
        for raw in bank.chunks(size):
            _, own, _, alpha, beta, y = self.predict(raw)
            survey.add(*(x.asnumpy() for x in (y, own, alpha, beta)))

    def reestimate(self, bank, size):
        """Batch normalisation's statistics over the whole target, in two passes."""
        bottlenecks, count = self.model.bottlenecks, len(bank)
        mean = squares = 0.0
        for raw in bank.chunks(size):
            mean = mean + bottlenecks.linear(self.tensor(raw)).sum(0) / count
        for raw in bank.chunks(size):
            apart = bottlenecks.linear(self.tensor(raw)) - mean
            squares = squares + ops.square(apart).sum(0) / (count - 1)
        ops.assign(bottlenecks.norm.moving_mean, mean)
        ops.assign(bottlenecks.norm.moving_variance, squares)

    # -- one batch -----------------------------------------------------------------------------

    def step(self, raw, memory, lr, learned):
        """One update; a flat record of its losses, weights and labels."""
        self.model.set_train(True)
        loss, length, parts = self.update(
            self.tensor(raw),
            self.tensor(memory),
            Tensor(lr, ms.float32),
            Tensor(float(learned), ms.float32),
            *self.clusters,
        )
        ce, im, further, labels, alpha, beta, y = (x.asnumpy() for x in parts)
        return {
            "loss": float(loss.asnumpy()),
            "ce": float(ce),
            "im_loss": float(im),
            **({self.term: float(further)} if self.term else {}),
            "grad_norm": float(length.asnumpy()),
            "labels": labels,
            "alpha": alpha,
            "beta": beta,
            "y": y,
        }

    # -- state ---------------------------------------------------------------------------------

    def tensor(self, array):
        return Tensor.from_numpy(np.ascontiguousarray(array))

    def weights(self):
        """The model's tensors by name."""
        return {torch_name(p.name): p for p in self.objective.get_parameters()}

    def momenta(self):
        """The optimiser's tensors by name."""
        pairs = zip(self.optimizer.parameters, self.moments, strict=True)
        return {f"momentum.{torch_name(p.name)}": momentum for p, momentum in pairs}

    def kept(self):
        """What a method keeps from one epoch to the next beside its weights."""
        return {}

    def state(self, into=None):
        """Everything that a resumed run needs, as arrays under PyTorch's names.

        `into` is an earlier state to write over: new memory costs more than the copy.
        """
        tensors = {**self.weights(), **self.momenta(), **self.kept()}
        return copied({name: tensor.asnumpy() for name, tensor in tensors.items()}, into)

    def load(self, arrays):
        """Weights, all of them; momenta where the file has them."""
        tensors = self.weights()
        if any(name.startswith("momentum.") for name in arrays):
            tensors |= self.momenta()
        own = {n: a for n, a in arrays.items() if n.startswith(("model.", "momentum."))}
        check_arrays(own, {n: tuple(t.shape) for n, t in tensors.items()}, "weights")
        for name, tensor in tensors.items():
            tensor.set_data(self.tensor(arrays[name].copy()))

    def parameter_count(self):
        return sum(parameter.size for parameter in self.trained.values())


def forward_of(model):
    def forward(raw, learned):
        return model(raw, learned)

    return forward


def update_of(objective, optimizer, clip_norm):
    """Gradients, clipping and the optimiser's step as one function of tensors."""
    differentiate = ms.value_and_grad(objective, None, optimizer.parameters, has_aux=True)

    def update(raw, memory, lr, learned, mu, products, penalty):
        ops.assign(optimizer.learning_rate, lr)
        (loss, parts), gradients = differentiate(raw, memory, learned, mu, products, penalty)
        clipped, length = clip_gradients(gradients, clip_norm)
        optimizer(tuple(clipped))
        return loss, length, parts

    return update
