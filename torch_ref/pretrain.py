"""Train one source model: a backbone, a bottleneck (linear + BN) and a weight-normed classifier.

    python torch_ref/pretrain.py --domain amazon --images office_caltech/amazon --labelled \\
        --backbone resnet50 --weights resnet50.safetensors --output sources/office_caltech
"""

import hashlib
import json
import math
import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file, Python puts this folder first
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from ms_biaten.spec import console
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.images import BadImageError, center_view, drawn_view, read_image
from ms_biaten.spec.lists import split
from torch_ref.backbones import make_backbone, width_of
from torch_ref.checkpoints import read_pickle
from torch_ref.extract import weights_digest
from torch_ref.heads import WeightNormLinear
from torch_ref.image_options import (
    add_image_options,
    add_model_options,
    backbone_options,
    classes_of,
    device_of,
    images_of,
    transform_of,
)
from torch_ref.importers import save_source

# Supplement, Pre-training Source Models: AdamW 5e-5 for DomainNet, SGD 0.01 for the Office sets.
# What the paper leaves open (decay, the backbone's smaller rate) is the SHOT family's.
OPTIMIZERS = {
    "adamw": {"lr": 5e-5, "weight_decay": 0.05, "backbone_scale": 1.0},
    "sgd": {"lr": 1e-2, "weight_decay": 1e-3, "backbone_scale": 0.1},
}
SCHEDULES = {
    "adamw": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "sgd": lambda done: (1 + 10 * done) ** -0.75,
}


# The options that decide a source's weights, beside its images, classes and start.
DECIDING = (
    *("backbone", "backbone_set", "resize", "crop", "batch", "seed", "epochs", "held_out"),
    *("optimizer", "lr", "backbone_scale", "weight_decay", "label_smoothing"),
    *("width", "head_seed"),
)


class SourceModel(nn.Module):
    """images (B,3,H,W) -> logits (B,C)."""

    def __init__(self, backbone, width, classes, head_seed):
        super().__init__()
        raw = width_of(backbone)
        self.backbone = backbone
        self.bottleneck = nn.Linear(raw, width)
        self.bn = nn.BatchNorm1d(width)
        self.fc = WeightNormLinear(width, classes)
        start_heads(self, head_seed)

    def forward(self, images):
        return self.fc(self.bn(self.bottleneck(self.backbone(images))))

    def heads(self):
        """By the names of docs/bank.md."""
        state = {n: t for n, t in self.state_dict().items() if not n.startswith("backbone.")}
        state.pop("bn.num_batches_tracked")
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in state.items()}


def start_heads(model, seed):
    """The same start for every source: then one source's classifier can read another's features."""
    rng = np.random.default_rng([seed, 0x4EAD])
    (width, raw), classes = model.bottleneck.weight.shape, len(model.fc.bias)
    linear = rng.normal(0, math.sqrt(2 / (raw + width)), (width, raw))
    v = rng.uniform(-1, 1, (classes, width)) / math.sqrt(width)
    with torch.no_grad():
        model.bottleneck.weight.copy_(torch.from_numpy(linear))
        model.bottleneck.bias.zero_()
        model.fc.weight_v.copy_(torch.from_numpy(v))
        model.fc.weight_g.copy_(torch.from_numpy(np.linalg.norm(v, axis=1, keepdims=True)))


class Labelled(Dataset):
    """Rows of a labelled list: drawn views to train on, centre views to validate on."""

    def __init__(self, images, rows, transform, seed=None, epoch=0):
        self.images, self.rows, self.transform = images, rows, transform
        self.seed, self.epoch = seed, epoch

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = int(self.rows[index])
        try:
            image = read_image(self.images.path(row))
        except BadImageError as error:
            raise UserError(f"{error}; mend or remove it") from None
        if self.seed is None:
            return center_view(image, self.transform), self.images.labels[row]
        rng = np.random.default_rng([self.seed, self.epoch, row])
        return drawn_view(image, self.transform, rng), self.images.labels[row]


def make_optimizer(model, options):
    """Two groups: the pretrained backbone moves slower than the new heads."""
    backbone = list(model.backbone.parameters())
    known = {id(parameter) for parameter in backbone}
    heads = [parameter for parameter in model.parameters() if id(parameter) not in known]
    groups = [
        {"params": backbone, "lr": options.lr * options.backbone_scale},
        {"params": heads, "lr": options.lr},
    ]
    if options.optimizer == "adamw":
        return torch.optim.AdamW(groups, weight_decay=options.weight_decay)
    return torch.optim.SGD(groups, momentum=0.9, nesterov=True, weight_decay=options.weight_decay)


def train_epoch(model, optimizer, loader, epoch, options):
    """One pass; the mean loss."""
    model.train()
    base = [options.lr * options.backbone_scale, options.lr]
    total, steps = 0.0, options.epochs * len(loader)
    title = f"epoch {epoch + 1}/{options.epochs}"
    with tqdm(loader, title, leave=False, disable=None, dynamic_ncols=True) as bar:
        for index, (images, labels) in enumerate(bar):
            factor = SCHEDULES[options.optimizer]((epoch * len(loader) + index) / steps)
            for group, lr in zip(optimizer.param_groups, base, strict=True):
                group["lr"] = lr * factor
            logits = model(images.to(options.place))
            loss = nn.functional.cross_entropy(
                logits, labels.to(options.place), label_smoothing=options.label_smoothing
            )
            if not torch.isfinite(loss):
                raise RunError(f"the loss became {loss.item()} in {title}; try a smaller --lr")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return total / len(loader)


@torch.no_grad()
def accuracy_of(model, loader, place):
    model.eval()
    right = count = 0
    for images, labels in loader:
        right += int((model(images.to(place)).argmax(1).cpu() == labels).sum())
        count += len(labels)
    return 100 * right / count


def pretrain(model, images, transform, options, state_file, identity):
    """Epoch by epoch, resumable; the lines of the results, and the best weights kept in `model`."""
    train_rows, held_rows = split(images, options.held_out, options.seed)
    optimizer = make_optimizer(model, options)
    state = read_state(state_file, identity)
    if state["epoch"]:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        console.say(f"going on after epoch {state['epoch']} of {options.epochs}")
    held = DataLoader(Labelled(images, held_rows, transform), 64, num_workers=options.workers)
    for epoch in range(state["epoch"], options.epochs):
        torch.manual_seed(options.seed * 100_003 + epoch)  # drop-path: by epoch, so it can resume
        rows = np.random.default_rng([options.seed, epoch]).permutation(train_rows)
        rows = rows[: len(rows) - (len(rows) % options.batch == 1)]  # one alone has no statistics
        dataset = Labelled(images, rows, transform, options.seed, epoch)
        loader = DataLoader(dataset, options.batch, num_workers=options.workers)
        loss = train_epoch(model, optimizer, loader, epoch, options)
        line = {
            "epoch": epoch + 1,
            "loss": loss,
            "held_out": accuracy_of(model, held, options.place),
        }
        console.say(
            f"epoch {line['epoch']}/{options.epochs}  loss {loss:.3f}  "
            f"accuracy on the held-out {len(held_rows)}: {line['held_out']:.1f}"
        )
        state["lines"].append(line)
        if line["held_out"] >= max(entry["held_out"] for entry in state["lines"]):
            # A copy: state_dict() alone would follow the training to its last epoch.
            state["best"] = {n: t.detach().clone() for n, t in model.state_dict().items()}
        state.update(epoch=epoch + 1, model=model.state_dict(), optimizer=optimizer.state_dict())
        with write_atomically(state_file) as file:
            torch.save({**state, "identity": identity}, file)
    model.load_state_dict(state["best"])
    return state["lines"]


def epochs_of(options, images):
    """As many whole epochs as reach --steps, where it is given."""
    if options.steps is None:
        return 20 if options.epochs is None else options.epochs
    rows = len(split(images, options.held_out, options.seed)[0])
    batches = rows // options.batch + (rows % options.batch > 1)  # one image alone is left out
    return math.ceil(options.steps / batches)


def identity_of(options, classes, images, backbone):
    """What a state on disk must have been trained with to go on from it."""
    content = hashlib.sha256(repr((images.names, images.labels, classes)).encode()).hexdigest()
    settings = {name: str(getattr(options, name)) for name in DECIDING}
    return {**settings, "images": content, "start": weights_digest(backbone)}


def read_state(path, identity):
    if not path.is_file():
        return {"epoch": 0, "lines": [], "best": None}
    state = read_pickle(path)
    if state.pop("identity", None) != identity:
        raise UserError(f"{path}: left by a training with other settings; delete it to start anew")
    return state


# -- command ----------------------------------------------------------------------------------


def add_options(parser):
    add_image_options(parser)
    add_model_options(parser)
    add_training_options(parser)
    parser.add_argument("--domain", required=True, help="name of the source")
    parser.add_argument("--output", required=True, type=Path, help="folder of the sources")


def add_training_options(parser):
    parser.add_argument("--weights", type=Path, help="checkpoint that the backbone starts from")
    parser.add_argument("--download", action="store_true", help="let timm fetch its weights")
    parser.add_argument("--optimizer", choices=list(OPTIMIZERS), default="sgd")
    parser.add_argument("--lr", type=float, help="of the heads; default by the optimizer")
    parser.add_argument("--backbone-scale", type=float, help="share of it for the backbone")
    parser.add_argument("--weight-decay", type=float)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=int, help="default: 20")
    length.add_argument("--steps", type=int, help="as many whole epochs as reach these")
    parser.add_argument("--width", type=int, default=256, help="of the bottleneck")
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--held-out", type=float, default=0.1, help="share that validates")
    parser.add_argument("--head-seed", type=int, default=0, help="keep it for all sources")


def pretrain_command(options):
    for key, value in OPTIMIZERS[options.optimizer].items():
        if getattr(options, key) is None:
            setattr(options, key, value)
    transform, options.place = transform_of(options), device_of(options)
    if options.batch < 2 or not 0 < options.held_out < 1:
        raise UserError("--batch needs at least 2, --held-out a share between 0 and 1")
    if any(n is not None and n < 1 for n in (options.epochs, options.steps)):
        raise UserError("--epochs and --steps need at least 1")
    classes = classes_of(options)
    images = images_of(options, classes)
    if images.labels is None:
        raise UserError("a source needs labels: pass --labelled, or a --list with them")
    if len(images) < 2 * options.batch:
        raise UserError(f"--batch: {options.batch} is too large for {len(images)} images")
    options.epochs = epochs_of(options, images)
    results = options.output / f"{options.domain}.results.jsonl"
    if results.exists():
        raise UserError(
            f"{results}: this source is trained already; delete it or use another --output"
        )
    torch.manual_seed(options.seed)
    backbone = make_backbone(
        options.backbone, options.weights, download=options.download, **backbone_options(options)
    )
    model = SourceModel(backbone, options.width, len(classes), options.head_seed)
    identity = identity_of(options, classes, images, backbone)
    options.output.mkdir(parents=True, exist_ok=True)
    state_file = options.output / f"{options.domain}.state.pt"
    model.to(options.place, memory_format=torch.channels_last)  # see extract
    lines = pretrain(model, images, transform, options, state_file, identity)
    save_source(
        options.output, options.domain, options.backbone, model.backbone, model.heads(), classes
    )
    with write_atomically(results) as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    state_file.unlink()
    best = max(lines, key=lambda line: line["held_out"])
    console.say(
        f"{options.domain}: {best['held_out']:.1f} on its held-out images, "
        f"saved in {options.output}"
    )


def main(arguments=None):
    from torch_ref.cli import main as command_line

    return command_line(["pretrain", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
