"""Target images through the frozen source backbones, once, into a feature bank on disk.

    python torch_ref/extract.py --source photo=models/photo --source sketch=models/sketch \\
        --backbone resnet50 --images pictures --classes classes.txt --target mine \\
        --output banks/mine
"""

import hashlib
import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file, Python puts this folder first
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from ms_biaten.spec import console
from ms_biaten.spec.bank import VIEWS
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.extraction import Partial, Plan, finished
from ms_biaten.spec.images import BadImageError, read_image, view_of
from torch_ref.backbones import state_of, width_of
from torch_ref.image_options import (
    add_image_options,
    add_model_options,
    backbone_options,
    classes_of,
    device_of,
    images_of,
    transform_of,
)
from torch_ref.importers import check_classes, load_source_model, save_heads

SAVE_EVERY = 20  # batches between two states on disk


class Views(Dataset):
    """Sample -> its views (V,3,H,W), or why it could not be read."""

    def __init__(self, images, views, transform, seed, start):
        self.images, self.views, self.transform = images, views, transform
        self.seed, self.start = seed, start

    def __len__(self):
        return len(self.images) - self.start

    def __getitem__(self, index):
        row = self.start + index
        try:
            image = read_image(self.images.path(row))
        except BadImageError as error:
            return str(error)
        return np.stack([view_of(image, v, self.transform, self.seed, row) for v in self.views])


def extract(backbones, images, plan, transform, options):
    """Fills the bank from wherever an earlier try stopped."""
    partial = Partial(options.output, plan)
    if partial.done:
        console.say(f"going on after {partial.done} of {len(images)} images")
    dataset = Views(images, plan.views, transform, options.seed, partial.done)
    loader = DataLoader(dataset, options.batch, num_workers=options.workers, collate_fn=list)
    bar = tqdm(total=len(images), initial=partial.done, unit="image", disable=None)
    with bar, torch.inference_mode():
        for count, decoded in enumerate(loader, 1):
            rows = slice(partial.done, partial.done + len(decoded))
            good = np.array([not isinstance(item, str) for item in decoded])
            for row, item in enumerate(decoded, rows.start):
                if isinstance(item, str):
                    note_bad_image(partial, row, item, options.skip_bad)
            if good.any():
                stack = torch.from_numpy(np.stack([d for d in decoded if not isinstance(d, str)]))
                features = features_of(backbones, stack)  # (B,V,N,R)
                for v, view in enumerate(plan.views):
                    partial.put(np.flatnonzero(good) + rows.start, {view: features[:, v]})
            partial.done = rows.stop
            bar.update(len(decoded))
            if count % SAVE_EVERY == 0:
                partial.save()
    partial.save()
    return partial


def features_of(models, views):
    """views (B,V,3,H,W) -> (B,V,N,R)."""
    B, V = views.shape[:2]
    flat = views.flatten(0, 1).to(next(models[0].parameters()).device)
    features = torch.stack([model(flat) for model in models], 1)  # (B*V,N,R)
    if not torch.isfinite(features).all():
        raise RunError("a backbone gave NaN or Inf; are its weights whole?")
    return features.reshape(B, V, len(models), -1).cpu().numpy()


def note_bad_image(partial, row, why, skip):
    if not skip:
        partial.save()
        raise UserError(f"{why}; mend or remove it, or leave such files out with --skip-bad")
    partial.bad[row] = why
    console.say(f"left out {why}")


def weights_digest(module):
    """SHA-256 over names and values of a backbone's tensors."""
    total = hashlib.sha256()
    for name, tensor in sorted(state_of(module).items()):
        total.update(name.encode())
        total.update(np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
    return total.hexdigest()


# -- command ----------------------------------------------------------------------------------


def add_options(parser):
    add_image_options(parser)
    add_model_options(parser)
    add_storing_options(parser)
    parser.add_argument(
        "--source",
        action="append",
        required=True,
        metavar="NAME=FOLDER",
        help="a trained source: its name and the folder of its files; at least two",
    )
    parser.add_argument("--target", required=True, help="a name for the images")
    parser.add_argument("--output", required=True, type=Path, help="folder of the new bank")


def add_storing_options(parser):
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=["center"])
    parser.add_argument("--dtype", choices=["float16", "float32"], default="float32")
    parser.add_argument("--skip-bad", action="store_true", help="leave unreadable images out")


def extract_command(options):
    sources = parse_sources(options.source)
    transform, device = transform_of(options), device_of(options)
    classes = classes_of(options)
    for name, folder in sources.items():
        check_classes(folder, name, classes)
    images = images_of(options, classes)
    loaded = {
        name: load_source_model(folder, name, options.backbone, **backbone_options(options))
        for name, folder in sources.items()
    }
    heads = {name: pair[1] for name, pair in loaded.items()}
    check_heads(heads, classes)
    # Channels last: EfficientNet-Lite0 ran more than twice as fast with it on a CPU.
    backbones = [p[0].to(device, memory_format=torch.channels_last) for p in loaded.values()]
    plan = Plan(
        target=options.target,
        domains=tuple(sources),
        classes=classes,
        samples=images.names,
        labels=images.labels,
        views=tuple(dict.fromkeys(options.views)),
        width=width_of(backbones[0]),
        dtype=options.dtype,
        origin={
            "backbone": options.backbone,
            "backbone_options": backbone_options(options),
            "weights": {n: weights_digest(pair[0]) for n, pair in loaded.items()},
            "transform": {**transform.__dict__, "seed": options.seed},
            "dtype": options.dtype,
        },
    )
    if finished(options.output, plan):
        console.say(f"{options.output} is there already, with the same sources and images")
        return
    partial = extract(backbones, images, plan, transform, options)
    for name, arrays in heads.items():
        save_heads(partial.folder / "heads", name, arrays, classes)
    bank = partial.finish()
    left_out = f", {len(partial.bad)} left out" if partial.bad else ""
    console.say(
        f"{options.output}: {len(bank)} images{left_out}, {len(sources)} sources, "
        f"{plan.width} features each, views: {', '.join(plan.views)}"
    )


def parse_sources(texts):
    sources = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals or not name or "/" in name:
            raise UserError(f"--source {text}: expected NAME=FOLDER, for example photo=models/a")
        if name in sources:
            raise UserError(f"--source {text}: '{name}' is named twice")
        sources[name] = Path(folder)
    if len(sources) < 2:
        raise UserError("--source: one source only; weighing sources needs at least 2")
    return sources


def check_heads(heads, classes):
    for name, arrays in heads.items():
        count = len(arrays["fc.bias"])
        if count != len(classes):
            raise UserError(
                f"source '{name}' was trained on {count} classes, --classes names {len(classes)}"
            )


def main(arguments=None):
    from torch_ref.cli import main as command_line

    return command_line(["extract", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
