"""Train one source model: a backbone, a bottleneck (linear + BN) and a weight-normed classifier.

    python torch_ref/pretrain.py --domain amazon --images office_caltech/amazon --labelled \\
        --backbone resnet50 --weights resnet50.safetensors --output sources/office_caltech
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file, Python puts this folder first
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from torch import nn

from ms_biaten.spec.renaming import without_counters
from ms_biaten.spec.weights import check_arrays
from torch_ref.backbones import make_backbone, width_of
from torch_ref.heads import WeightNormLinear
from torch_ref.losses import cross_entropy
from torch_ref.runtime import device_of, half_precision, loss_scale

# What each optimiser keeps of a parameter: our name -> PyTorch's.
MOMENTS = {
    "sgd": {"momentum": "momentum_buffer"},
    "adamw": {"mean": "exp_avg", "square": "exp_avg_sq"},
}


class SourceModel(nn.Module):
    """images (B,3,H,W) -> logits (B,C)."""

    def __init__(self, backbone, heads):
        super().__init__()
        width, classes = len(heads["bottleneck.bias"]), len(heads["fc.bias"])
        self.backbone = backbone
        self.bottleneck = nn.Linear(width_of(backbone), width)
        self.bn = nn.BatchNorm1d(width)
        self.fc = WeightNormLinear(width, classes)

    def forward(self, images):
        return self.head(self.backbone(images))

    def head(self, raw):
        return self.fc(self.bn(self.bottleneck(raw)))


def new_backbone(name, seed, weights=None, download=False, **options):
    """To be trained: random, by the seed, where it has no weights."""
    torch.manual_seed(seed)
    return make_backbone(name, weights, download=download, **options)


def make_optimizer(parameters, options):
    """One group's: the pretrained backbone moves slower than the new heads."""
    settings = {"lr": options.lr, "weight_decay": options.weight_decay}
    if options.optimizer == "adamw":
        return torch.optim.AdamW(parameters, **settings)
    return torch.optim.SGD(parameters, **settings, momentum=0.9, nesterov=True)


class Trainer:
    """Cross entropy of a labelled domain; backbone and heads are trained together."""

    def __init__(self, backbone, heads, options, config):
        self.options, self.config = options, config
        self.device, self.precision = device_of(config), config.run.precision
        self.scale = loss_scale(self.precision)
        self.model = SourceModel(backbone, heads)
        own = self.tensors()
        check_arrays(heads, {n: tuple(t.shape) for n, t in own.items() if n in heads}, "heads")
        self.copy(own, heads)
        self.model.to(self.device, memory_format=torch.channels_last)  # see extract
        named = dict(self.model.named_parameters())
        parts = [
            {n: p for n, p in named.items() if n.startswith("backbone.") == of_backbone}
            for of_backbone in (True, False)
        ]
        self.groups = [
            (make_optimizer(list(part.values()), options), part, options.lr * share)
            for part, share in zip(parts, (options.backbone_scale, 1.0), strict=True)
        ]

    def begin_epoch(self, epoch):
        torch.manual_seed(self.options.seed * 100_003 + epoch)  # stochastic depth: by epoch

    def step(self, images, labels, factor):
        self.model.train()
        with half_precision(self.device, self.precision):
            raw = self.model.backbone(self.tensor(images))
        logits = self.model.head(raw.float())
        loss = cross_entropy(logits, self.tensor(labels).long(), self.options.label_smoothing)
        self.model.zero_grad()
        (loss * self.scale).backward()
        for optimizer, part, lr in self.groups:
            if self.scale != 1.0:
                for parameter in part.values():
                    parameter.grad /= self.scale
            optimizer.param_groups[0]["lr"] = lr * factor
            optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def logits(self, images):
        self.model.eval()
        with half_precision(self.device, self.precision):
            raw = self.model.backbone(self.tensor(images))
        return self.model.head(raw.float()).cpu().numpy()

    # -- state ---------------------------------------------------------------------------------

    def tensor(self, array):
        return torch.from_numpy(array).to(self.device)

    def tensors(self):
        """The model's by name; batch normalisation's counters are of no use."""
        return without_counters(self.model.state_dict())

    def moments(self):
        """The optimisers' tensors by name."""
        result = {}
        for optimizer, part, _ in self.groups:
            for name, parameter in part.items():
                state = optimizer.state[parameter]
                for ours, theirs in MOMENTS[self.options.optimizer].items():
                    if theirs not in state:
                        state[theirs] = torch.zeros_like(parameter)
                    result[f"{ours}.{name}"] = state[theirs]
                if self.options.optimizer == "adamw":
                    result[f"step.{name}"] = state.setdefault("step", torch.zeros(()))
        return result

    def weights(self):
        return self.arrays(self.tensors())

    def state(self):
        return self.arrays({**self.tensors(), **self.moments()})

    def arrays(self, tensors):
        return {n: t.detach().cpu().contiguous().numpy().copy() for n, t in tensors.items()}

    def load(self, arrays):
        tensors = {**self.tensors(), **self.moments()}
        check_arrays(arrays, {n: tuple(t.shape) for n, t in tensors.items()}, "state")
        self.copy(tensors, arrays)

    @torch.no_grad()
    def copy(self, tensors, arrays):
        for name, array in arrays.items():
            tensors[name].copy_(torch.from_numpy(array))


def main(arguments=None):
    from torch_ref.cli import main as command_line

    return command_line(["pretrain", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
