"""What every method shares: predicting, updating, and a state that can be saved and resumed."""

import contextlib
import math

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from ms_biaten import cores, ranks
from ms_biaten.backbones.stochastic_depth import draw_depth, is_drawn
from ms_biaten.extract import Extractor
from ms_biaten.joined import apart
from ms_biaten.optimizers import EACH, Sgd, times
from ms_biaten.quick import BATCHED_ROW_BY_ROW, PRODUCT, TOGETHER, divisor
from ms_biaten.runtime import compiled, half_precision, loss_scale
from ms_biaten.spec.weights import check_arrays, copied, torch_name


def clip_factor(gradients, limit):
    """What scales all gradients to a joint length of at most `limit`, and their length."""
    products, counted = ops.cat(EACH(own_products, gradients)), ops.cat(EACH(own_places, gradients))
    length = ops.sqrt(PRODUCT(products.reshape(1, -1), counted.reshape(-1, 1))).reshape(())
    return ops.minimum(ops.div(limit, length + 1e-6), 1.0), length


def own_products(x):
    """A tensor's parts, each with all of its group, flat: |x|^2 is the sum of some of them.

    MindSpore sums millions of numbers several times slower than it multiplies them.
    """
    rows = x.reshape(in_parts(x.shape))
    return BATCHED_ROW_BY_ROW(rows, rows).reshape(-1)


def own_places(x):
    """A one for each product of a part with itself."""
    return own_places_of(x.shape, x.dtype)


@ops.constexpr
def own_places_of(shape, dtype):
    groups, together, _ = in_parts_of(shape)
    return Tensor(np.tile(np.eye(together).reshape(-1), groups), dtype)


@ops.constexpr
def in_parts(shape):
    return in_parts_of(shape)


def in_parts_of(shape):
    """(G,J,E) of as many numbers: a few long rows at once; see `quick.squared_lengths`."""
    size = math.prod(shape)
    together = divisor(size, TOGETHER)
    width = divisor(size // together, 2048)
    return (size // together // width, together, width)


def grouped(trained, scale):
    """The trained parameters by the share of the learning rate that they get; none is empty."""
    parts = [
        ({n: p for n, p in trained.items() if n.startswith("backbones.")}, scale),
        ({n: p for n, p in trained.items() if not n.startswith("backbones.")}, 1.0),
    ]
    return [(part, share) for part, share in parts if part]


EVALUATE_WITH = {"learned": 1.0, "one_hot": None}  # `learned` of `attention.BiATEN`
OWN = ("model.", "backbones.", "momentum.")  # of a checkpoint's names, those that are loaded here


class Backbones(nn.SequentialCell):
    """images (B,3,H,W) -> raw (B,N,R), where the backbones are trained, too: Eq. (18)'s theta_f."""

    def construct(self, images):
        return ops.stack([cell(images).astype(ms.float32) for cell in self.cell_list], 1)


class Engine:
    """A loss over a model, trained by SGD; classifiers stay frozen, and backbones by default."""

    term = ""  # what a method's loss has beside the pseudo labels' and the IM term

    def __init__(self, config, sizes, arrays, objective, backbones=None):
        train = config.train
        self.config, self.sizes = config, sizes
        self.chunk = 0  # the largest chunk that was predicted
        self.objective, self.see = objective, None
        if backbones:
            half = [half_precision(backbone, config.run.precision) for backbone in backbones]
            objective.backbones = Backbones(half)
            self.see = Extractor(half, config)
        self.model = self.objective.model
        self.trained = {p.name: p for p in self.objective.trainable_params()}
        settings = (train.weight_decay, train.momentum, train.nesterov)
        groups = grouped(self.trained, train.backbone_scale)
        self.groups = [(Sgd(part.values(), *settings), scale) for part, scale in groups]
        self.clip_norm = train.clip_norm or float("inf")
        self.begin_epoch(0)
        self.evaluate_with = EVALUATE_WITH[config.profile.evaluate_with]
        self.clusters = (self.tensor(np.zeros(1, np.float32)),) * 3  # where labels come ready
        # Compiled separately: a compiled function keeps the training flag of its first call.
        forward = forward_of(self.model, self.evaluate_with)
        self.forward = compiled(forward, config, long_kernels=True)
        scale = loss_scale(config.run.precision) if backbones else 1.0
        update = update_of(self.objective, self.groups, self.clip_norm, scale)
        self.update = compiled(update, config)
        self.load({f"model.{name}": array for name, array in arrays.items()} | self.seen_weights())

    # -- the target as a whole -----------------------------------------------------------------

    def predict(self, raw):
        """Outputs of a chunk in evaluation mode, as tensors."""
        self.model.set_train(False)
        count = len(raw)
        self.chunk = max(self.chunk, count)
        outputs = self.forward(filled(self.tensor(raw), self.chunk))
        return tuple(x[:count] for x in outputs) if count < self.chunk else outputs

    def outputs(self, raw):
        """The same, as arrays."""
        return tuple(x.asnumpy() for x in self.predict(raw))

    def extract(self, images):
        """Features (B,N,R) of images under the backbones as they are now, as arrays."""
        return self.see(images)

    def survey(self, bank, size, survey):
        """One pass over the target: its outputs to `survey`."""
        for raw in bank.chunks(size):
            _, own, _, alpha, beta, y = self.predict(raw)
            survey.add(*(x.asnumpy() for x in (y, own, alpha, beta)))

    def reestimate(self, bank, size):
        """Batch normalisation's statistics over the whole target, in two passes."""
        bottlenecks, count = self.model.bottlenecks, ranks.count(len(bank))
        mean = squares = 0.0
        for raw in bank.chunks(size):
            mean = mean + bottlenecks.linear(self.tensor(raw)).sum(1) / count
        mean = ranks.total(mean)
        for raw in bank.chunks(size):
            centred = bottlenecks.linear(self.tensor(raw)) - mean.expand_dims(1)
            squares = squares + ops.square(centred).sum(1) / (count - 1)
        ops.assign(bottlenecks.norm.moving_mean, mean)
        ops.assign(bottlenecks.norm.moving_variance, ranks.total(squares))

    def undisturbed(self):
        """While epochs are made: see `cores`. Several workers would all leave the same core.

        Not before this process has seen a chunk of the target, as a resumed run has not: the
        threads that its first graphs start would be held, too, those that multiply among them.
        """
        alone_on_cpu = self.config.run.device == "CPU" and ranks.size() == 1
        return cores.undisturbed() if alone_on_cpu and self.chunk else contextlib.nullcontext()

    # -- one batch -----------------------------------------------------------------------------

    def begin_epoch(self, epoch):
        """Before its steps: what they draw depends on the seed and the epoch alone."""
        self.rng = np.random.default_rng([self.config.run.seed, epoch, 0xD0])
        self.settle()

    def step(self, raw, memory, lr, learned):
        """One update; a flat record of its losses, weights and labels."""
        if not self.model.training:  # asking costs less than telling every cell again
            self.objective.set_train(True)
        draw_depth(self.objective, self.config.train.batch_size, self.rng)
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
        if isinstance(array, Tensor):  # picked from what is kept on the device
            return array
        return Tensor.from_numpy(np.ascontiguousarray(array))

    def keep(self, features):
        """`data.placement: device`: all features, as they are stored."""
        return self.tensor(features)

    def pick(self, kept, rows):
        """Those rows of what is kept, in single precision."""
        return ops.gather(kept, self.tensor(rows), 0).astype(ms.float32)

    def weights(self):
        """The model's tensors by name, and those of backbones that are trained."""
        own = self.objective.get_parameters()
        return apart({torch_name(p.name): p for p in own if not is_drawn(p.name)})

    def seen_weights(self):
        """The backbones' tensors, as they were given."""
        named = self.weights().items()
        return {name: tensor.asnumpy() for name, tensor in named if name.startswith("backbones.")}

    def settle(self):
        """The optimisers' tensors as they are saved."""
        for optimizer, _ in self.groups:
            optimizer.settle()

    def momenta(self):
        """The optimiser's tensors by name."""
        self.settle()
        kept = [row for optimizer, _ in self.groups for row in optimizer.state()]
        return apart({f"{kind}.{torch_name(name)}": tensor for kind, name, tensor in kept})

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
        own = {n: a for n, a in arrays.items() if n.startswith(OWN)}
        check_arrays(own, {n: tuple(t.shape) for n, t in tensors.items()}, "weights")
        for name, tensor in tensors.items():
            tensor.set_data(self.tensor(arrays[name].astype(np.float32)))

    def parameter_count(self):
        return sum(parameter.size for parameter in self.trained.values())


def filled(x, rows):
    """A last, shorter chunk made as long as the others: a graph is compiled for one length."""
    short = rows - len(x)
    return ops.cat((x, ops.zeros((short, *x.shape[1:]), x.dtype))) if short else x


def forward_of(model, learned):
    def forward(raw):
        return model(raw, learned)

    return forward


def update_of(objective, groups, clip_norm, loss_scale):
    """Gradients, clipping and the optimisers' steps as one function of tensors."""
    parameters = [p for optimizer, _ in groups for p in optimizer.parameters]
    ends = np.cumsum([0, *(len(optimizer.parameters) for optimizer, _ in groups)]).tolist()
    steps = [
        (optimizer.step, share, ends[i], ends[i + 1]) for i, (optimizer, share) in enumerate(groups)
    ]

    def scaled(raw, memory, learned, centers, products, penalty):
        loss, parts = objective(raw, memory, learned, centers, products, penalty)
        return loss * loss_scale, (loss, parts)

    differentiate = ms.value_and_grad(scaled, None, parameters, has_aux=True)

    def update(raw, memory, lr, learned, centers, products, penalty):
        (_, (loss, parts)), gradients = differentiate(
            raw, memory, learned, centers, products, penalty
        )
        if loss_scale != 1.0:
            gradients = EACH(ops.partial(times, 1 / loss_scale), gradients)
        if ranks.size() > 1:
            gradients = ranks.shared(gradients)
        factor, length = clip_factor(gradients, clip_norm)
        for step, share, first, last in steps:
            step(gradients[first:last], lr * share, factor)
        return loss, length, parts

    return update
