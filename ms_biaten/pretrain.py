"""Train one source model: a backbone, a bottleneck (linear + BN) and a weight-normed classifier.

    python ms_biaten/pretrain.py --domain amazon --images office_caltech/amazon --labelled \\
        --backbone resnet50 --weights resnet50.safetensors --output sources/office_caltech
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file, Python puts this folder first
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from ms_biaten.backbones import make_backbone, width_of
from ms_biaten.backbones.stochastic_depth import draw_depth, is_drawn
from ms_biaten.heads import WeightNormLinear
from ms_biaten.losses import cross_entropy
from ms_biaten.optimizers import EACH, AdamW, Sgd, times
from ms_biaten.runtime import compiled, half_precision, loss_scale
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.weights import check_arrays, torch_name


class SourceModel(nn.Cell):
    """images (B,3,H,W) -> logits (B,C)."""

    def __init__(self, backbone, heads):
        super().__init__()
        width, classes = len(heads["bottleneck.bias"]), len(heads["fc.bias"])
        self.backbone = backbone
        self.bottleneck = nn.Dense(width_of(backbone), width)
        self.bn = nn.BatchNorm1d(width)
        self.fc = WeightNormLinear(width, classes)

    def construct(self, images):
        return self.head(self.backbone(images))

    def head(self, raw):
        return self.fc(self.bn(self.bottleneck(raw)))


def new_backbone(name, seed, weights=None, download=False, **options):
    """To be trained: random, by the seed, where it has no weights."""
    if download:
        raise UserError("--download is timm's: fetch the weights elsewhere and pass --weights")
    ms.set_seed(seed)
    return make_backbone(name, weights, **options)


def make_optimizer(parameters, options):
    """One group's: the pretrained backbone moves slower than the new heads."""
    if options.optimizer == "adamw":
        return AdamW(parameters, options.weight_decay)
    return Sgd(parameters, options.weight_decay, momentum=0.9, nesterov=True)


class Trainer:
    """Cross entropy of a labelled domain; backbone and heads are trained together."""

    def __init__(self, backbone, heads, options, config):
        self.options, self.config = options, config
        self.scale = loss_scale(config.run.precision)
        self.model = SourceModel(half_precision(backbone, config.run.precision), heads)
        own = self.tensors()
        check_arrays(heads, {n: tuple(t.shape) for n, t in own.items() if n in heads}, "heads")
        self.copy(own, heads)
        self.rng = np.random.default_rng(options.seed)
        trained = self.model.trainable_params()
        parts = [
            [p for p in trained if p.name.startswith("backbone.") == of_backbone]
            for of_backbone in (True, False)
        ]
        self.groups = [
            (make_optimizer(part, options), options.lr * share)
            for part, share in zip(parts, (options.backbone_scale, 1.0), strict=True)
        ]
        # Compiled separately: a compiled function keeps the training flag of its first call.
        self.forward = compiled(forward_of(self.model), config)
        objective = objective_of(self.model, options.label_smoothing, self.scale)
        optimizers = [optimizer for optimizer, _ in self.groups]
        self.update = compiled(update_of(objective, optimizers, self.scale), config)

    def begin_epoch(self, epoch):
        self.rng = np.random.default_rng([self.options.seed, epoch, 0xD0])  # stochastic depth

    def step(self, images, labels, factor):
        self.model.set_train(True)
        draw_depth(self.model.backbone, self.options.batch, self.rng)
        rates = [Tensor(lr * factor, ms.float32) for _, lr in self.groups]
        loss = self.update(self.tensor(images), self.tensor(labels), *rates)
        return float(loss.asnumpy()) / self.scale

    def logits(self, images):
        self.model.set_train(False)
        return self.forward(self.tensor(images)).asnumpy()

    # -- state ---------------------------------------------------------------------------------

    def tensor(self, array):
        return Tensor.from_numpy(np.array(array, order="C"))  # a number stays without a shape

    def tensors(self):
        """The model's by name."""
        own = self.model.get_parameters()
        return {torch_name(p.name): p for p in own if not is_drawn(p.name)}

    def moments(self):
        """The optimisers' tensors by name."""
        result = {}
        for optimizer, _ in self.groups:
            result |= {f"{kind}.{torch_name(name)}": t for kind, name, t in optimizer.state()}
        return result

    def weights(self):
        return self.arrays(self.tensors())

    def state(self):
        return self.arrays({**self.tensors(), **self.moments()})

    def arrays(self, tensors):
        return {name: tensor.asnumpy().copy() for name, tensor in tensors.items()}

    def load(self, arrays):
        tensors = {**self.tensors(), **self.moments()}
        check_arrays(arrays, {n: tuple(t.shape) for n, t in tensors.items()}, "state")
        self.copy(tensors, arrays)

    def copy(self, tensors, arrays):
        for name, array in arrays.items():
            tensors[name].set_data(self.tensor(array))


def forward_of(model):
    def forward(images):
        return model(images)

    return forward


def objective_of(model, smoothing, scale):
    def objective(images, labels):
        return cross_entropy(model(images), labels, smoothing) * scale

    return objective


def update_of(objective, optimizers, scale):
    """Gradients and both optimisers' steps as one function of tensors."""
    backbone, heads = optimizers
    count = len(backbone.parameters)
    differentiate = ms.value_and_grad(objective, None, [*backbone.parameters, *heads.parameters])
    step_backbone, step_heads = backbone.step, heads.step

    def update(images, labels, backbone_lr, heads_lr):
        loss, gradients = differentiate(images, labels)
        if scale != 1.0:
            gradients = EACH(ops.partial(times, 1 / scale), gradients)
        step_backbone(gradients[:count], backbone_lr)
        step_heads(gradients[count:], heads_lr)
        return loss

    return update


def main(arguments=None):
    from ms_biaten.cli import main as command_line

    return command_line(["pretrain", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
