"""What every method shares: predicting, updating, and a state that can be saved and resumed."""

import numpy as np
import torch

from ms_biaten.spec.weights import check_arrays, copied


def clip_gradients(gradients, limit):
    """Scales all gradients to a joint length of at most `limit`; returns them and the length."""
    length = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    scale = (limit / (length + 1e-6)).clamp(max=1.0)
    return [g * scale for g in gradients], length


EVALUATE_WITH = {"learned": 1.0, "one_hot": 0.0}


class Engine:
    """A loss over a model, trained by SGD; backbones and classifiers stay frozen."""

    term = ""  # what a method's loss has beside the pseudo labels' and the IM term

    def __init__(self, config, sizes, arrays, objective):
        train = config.train
        self.config, self.sizes = config, sizes
        self.device = torch.device("cuda" if config.run.device == "GPU" else "cpu")
        self.objective = objective.to(self.device)
        self.model = self.objective.model
        self.trained = {n: p for n, p in self.objective.named_parameters() if p.requires_grad}
        self.optimizer = torch.optim.SGD(
            self.trained.values(),
            lr=train.lr,
            momentum=train.momentum,
            weight_decay=train.weight_decay,
            nesterov=train.nesterov,
        )
        self.clip_norm = train.clip_norm or float("inf")
        self.evaluate_with = EVALUATE_WITH[config.profile.evaluate_with]
        self.clusters = (self.tensor(np.zeros(1, np.float32)),) * 3  # where labels come ready
        self.load({f"model.{name}": array for name, array in arrays.items()})

    # -- the target as a whole -----------------------------------------------------------------

    @torch.no_grad()
    def predict(self, raw):
        """Outputs of a chunk in evaluation mode, as tensors."""
        self.model.eval()
        return self.model(self.tensor(raw), self.evaluate_with)

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
            apart = bottlenecks.linear(self.tensor(raw)) - mean
            squares = squares + apart.square().sum(0) / (count - 1)
        bottlenecks.norm.running_mean.copy_(mean)
        bottlenecks.norm.running_var.copy_(squares)

    # -- one batch -----------------------------------------------------------------------------

    def update(self, raw, memory, lr, learned, *clusters):
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss, parts = self.objective(raw, memory, learned, *clusters)
        parameters = list(self.trained.values())
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        clipped, length = clip_gradients(gradients, self.clip_norm)
        for parameter, gradient in zip(parameters, clipped, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        return loss, length, parts

    def step(self, raw, memory, lr, learned):
        """One update; a flat record of its losses, weights and labels."""
        self.model.train()
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
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    def weights(self):
        """The model's tensors by name; batch normalisation's counter is of no use."""
        state = self.objective.state_dict()
        return {name: t for name, t in state.items() if not name.endswith("num_batches_tracked")}

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
        own = {n: a for n, a in arrays.items() if n.startswith(("model.", "momentum."))}
        check_arrays(own, {n: tuple(t.shape) for n, t in tensors.items()}, "weights")
        for name, tensor in tensors.items():
            tensor.copy_(self.tensor(arrays[name]))

    def parameter_count(self):
        return sum(parameter.numel() for parameter in self.trained.values())
