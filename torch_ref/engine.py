"""What every method shares: predicting, updating, and a state that can be saved and resumed."""

import contextlib

import numpy as np
import torch
from torch import nn

from ms_biaten.spec.renaming import without_counters
from ms_biaten.spec.weights import check_arrays, copied
from torch_ref.extract import Extractor
from torch_ref.runtime import device_of, half_precision, loss_scale


def clip_factor(gradients, limit):
    """What scales all gradients to a joint length of at most `limit`, and their length."""
    flat = [g.reshape(-1) for g in gradients]
    length = torch.stack([torch.dot(g, g) for g in flat]).sum().sqrt()
    return (limit / (length + 1e-6)).clamp(max=1.0), length


def grouped(trained, scale):
    """The trained parameters by the share of the learning rate that they get; none is empty."""
    parts = [
        ({n: p for n, p in trained.items() if n.startswith("backbones.")}, scale),
        ({n: p for n, p in trained.items() if not n.startswith("backbones.")}, 1.0),
    ]
    return [(part, share) for part, share in parts if part]


EVALUATE_WITH = {"learned": 1.0, "one_hot": None}  # `learned` of `attention.BiATEN`
OWN = ("model.", "backbones.", "momentum.")  # of a checkpoint's names, those that are loaded here


class Backbones(nn.ModuleList):
    """images (B,3,H,W) -> raw (B,N,R), where the backbones are trained, too: Eq. (18)'s theta_f."""

    def forward(self, images):
        with half_precision(images.device, self.precision):
            features = [backbone(images) for backbone in self]
        return torch.stack(features, 1).float()


class Engine:
    """A loss over a model, trained by SGD; classifiers stay frozen, and backbones by default."""

    term = ""  # what a method's loss has beside the pseudo labels' and the IM term

    def __init__(self, config, sizes, arrays, objective, backbones=None):
        train = config.train
        self.config, self.sizes = config, sizes
        self.device, self.see = device_of(config), None
        if backbones:
            objective.backbones = Backbones(backbones)
            objective.backbones.precision = config.run.precision
            self.see = Extractor(backbones, config)
        self.objective = objective.to(self.device)
        self.model = self.objective.model
        self.trained = {n: p for n, p in self.objective.named_parameters() if p.requires_grad}
        settings = {"momentum": train.momentum, "weight_decay": train.weight_decay}
        groups = grouped(self.trained, train.backbone_scale)
        self.scales = [scale for _, scale in groups]
        self.optimizer = torch.optim.SGD(
            [{"params": list(part.values())} for part, _ in groups],
            lr=train.lr,
            nesterov=train.nesterov,
            fused=not backbones,  # one pass over parameters, gradients and momenta
            **settings,
        )
        self.loss_scale = loss_scale(config.run.precision) if backbones else 1.0
        self.clip_norm = train.clip_norm or float("inf")
        self.begin_epoch(0)
        self.evaluate_with = EVALUATE_WITH[config.profile.evaluate_with]
        self.clusters = (self.tensor(np.zeros(1, np.float32)),) * 3  # where labels come ready
        self.load({f"model.{name}": array for name, array in arrays.items()} | self.seen_weights())

    # -- the target as a whole -----------------------------------------------------------------

    @torch.no_grad()
    def predict(self, raw):
        """Outputs of a chunk in evaluation mode, as tensors."""
        self.model.eval()
        return self.model(self.tensor(raw), self.evaluate_with)

    def outputs(self, raw):
        """The same, as arrays."""
        return tuple(x.cpu().numpy() for x in self.predict(raw))

    def extract(self, images):
        """Features (B,N,R) of images under the backbones as they are now, as arrays."""
        return self.see(images)

    def survey(self, bank, size, survey):
        """One pass over the target: its outputs to `survey`."""
        for raw in bank.chunks(size):
            _, own, _, alpha, beta, y = self.predict(raw)
            survey.add(*(x.cpu().numpy() for x in (y, own, alpha, beta)))

    @torch.no_grad()
    def reestimate(self, bank, size):
        """Batch normalisation's statistics over the whole target, in two passes."""
        bottlenecks, count = self.model.bottlenecks, len(bank)
        mean = squares = 0.0
        for raw in bank.chunks(size):
            mean = mean + bottlenecks.linear(self.tensor(raw)).sum(0) / count
        for raw in bank.chunks(size):
            centred = bottlenecks.linear(self.tensor(raw)) - mean
            squares = squares + centred.square().sum(0) / (count - 1)
        bottlenecks.norm.running_mean.copy_(mean)
        bottlenecks.norm.running_var.copy_(squares)

    def undisturbed(self):
        """While epochs are made. PyTorch's threads are left as they are."""
        return contextlib.nullcontext()

    # -- one batch -----------------------------------------------------------------------------

    def begin_epoch(self, epoch):
        """Before its steps: what they draw depends on the seed and the epoch alone."""
        torch.manual_seed(self.config.run.seed * 100_003 + epoch)  # timm's stochastic depth

    def update(self, raw, memory, lr, learned, *clusters):
        for group, scale in zip(self.optimizer.param_groups, self.scales, strict=True):
            group["lr"] = lr * scale
        loss, parts = self.objective(raw, memory, learned, *clusters)
        parameters = list(self.trained.values())
        scaled = loss * self.loss_scale
        gradients = torch.autograd.grad(scaled, parameters, materialize_grads=True)
        if self.loss_scale != 1.0:
            gradients = [gradient / self.loss_scale for gradient in gradients]
        factor, length = clip_factor(gradients, self.clip_norm)
        if factor < 1:
            gradients = torch._foreach_mul(gradients, factor)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            # On a CPU, the fused step takes a gradient with other strides for another gradient.
            alike = gradient.stride() == parameter.stride()
            parameter.grad = gradient if alike else torch.empty_like(parameter).copy_(gradient)
        self.optimizer.step()
        return loss, length, parts

    def step(self, raw, memory, lr, learned):
        """One update; a flat record of its losses, weights and labels."""
        self.objective.train()
        loss, length, parts = self.update(
            self.tensor(raw), self.tensor(memory), lr, float(learned), *self.clusters
        )
        ce, im, further, labels, alpha, beta, y = (x.detach().cpu().numpy() for x in parts)
        return {
            "loss": float(loss.detach()),
            "ce": float(ce),
            "im_loss": float(im),
            **({self.term: float(further)} if self.term else {}),
            "grad_norm": float(length),
            "labels": labels,
            "alpha": alpha,
            "beta": beta,
            "y": y,
        }

    # -- state ---------------------------------------------------------------------------------

    def tensor(self, array):
        if isinstance(array, torch.Tensor):  # picked from what is kept on the device
            return array
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def keep(self, features):
        """`data.placement: device`: all features, as they are stored."""
        return self.tensor(features)

    def pick(self, kept, rows):
        """Those rows of what is kept, in single precision."""
        return kept[self.tensor(rows)].float()

    def weights(self):
        """The model's tensors by name, and those of backbones that are trained."""
        return without_counters(self.objective.state_dict())

    def seen_weights(self):
        """The backbones' tensors, as they were given."""
        named = self.weights().items()
        return {
            name: tensor.cpu().numpy() for name, tensor in named if name.startswith("backbones.")
        }

    def momenta(self):
        """The optimiser's tensors by name."""
        state = self.optimizer.state
        for parameter in self.trained.values():
            if "momentum_buffer" not in state[parameter]:
                state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return {f"momentum.{n}": state[p]["momentum_buffer"] for n, p in self.trained.items()}

    def kept(self):
        """What a method keeps from one epoch to the next beside its weights."""
        return {}

    def state(self, into=None):
        """Everything that a resumed run needs, as arrays under PyTorch's names.

        `into` is an earlier state to write over: new memory costs more than the copy.
        """
        tensors = {**self.weights(), **self.momenta(), **self.kept()}
        return copied({name: tensor.cpu().numpy() for name, tensor in tensors.items()}, into)

    def load(self, arrays):
        """Weights, all of them; momenta where the file has them."""
        tensors = self.weights()
        if any(name.startswith("momentum.") for name in arrays):
            tensors |= self.momenta()
        own = {n: a for n, a in arrays.items() if n.startswith(OWN)}
        check_arrays(own, {n: tuple(t.shape) for n, t in tensors.items()}, "weights")
        for name, tensor in tensors.items():
            tensor.copy_(self.tensor(arrays[name]))

    def parameter_count(self):
        return sum(parameter.numel() for parameter in self.trained.values())
