"""Trained sources of other projects: a backbone, and heads in the names of docs/bank.md.

Each project has its own three files; which project it was is seen from the files that are there.
"""

import json
from pathlib import Path

import numpy as np

from ms_biaten.spec.backbone_files import check_model_name, metadata_of
from ms_biaten.spec.console import say
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.renaming import to_heads
from ms_biaten.spec.weights import check_arrays, check_stored_classes, source_shapes
from torch_ref.backbones import make_backbone, width_of
from torch_ref.checkpoints import read_checkpoint, read_metadata, write_safetensors


def layouts(folder, domain):
    """Where each project keeps a domain: backbone, then one or two files of heads."""
    shot = ("source_F.pt", "source_B.pt", "source_C.pt")
    initial = domain[:1].upper()  # SHOT and DECISION name a domain's folder by its first letter
    return {
        "ms_biaten": [folder / f"{domain}.backbone.safetensors", folder / f"{domain}.safetensors"],
        "Bi-ATEN's release": [
            folder / f"{domain}_{part}.pth" for part in ("backbone", "bottleneck", "myclf")
        ],
        "SHOT, by initial": [folder / initial / name for name in shot],
        "SHOT, this folder": [folder / name for name in shot],
    }


def find_source(folder, domain):
    """The files of the one project that has this domain in the folder."""
    known = layouts(Path(folder), domain)
    found = [files for files in known.values() if files[0].is_file()]
    if len(found) > 1:
        both = " and ".join(str(files[0]) for files in found)
        raise UserError(f"{folder}: {both} are both there; keep one, or name a folder with one")
    if not found:
        names = ", ".join(str(files[0].relative_to(folder)) for files in known.values())
        raise UserError(f"{folder}: no trained source '{domain}'; looked for {names}")
    return found[0]


def load_source_model(path, domain, backbone_name, **options):
    """A backbone with its weights, and the heads as arrays; options go to `make_backbone`."""
    backbone_file, *head_files = find_source(path, domain)
    backbone = open_backbone(backbone_file, backbone_name, **options)
    return backbone, load_heads(head_files, width_of(backbone))


def open_backbone(path, name, **options):
    check_model_name(path, read_metadata(path), name)
    return make_backbone(name, weights=path, **options)


def check_classes(folder, domain, classes):
    """Sources of ours say their class order: it must be the one that is asked for."""
    *_, heads = find_source(folder, domain)
    if heads.is_file():
        check_stored_classes(heads, read_metadata(heads), classes, "--classes")


def load_heads(files, raw_width):
    """Heads from one file, or from a bottleneck's and a classifier's."""
    parts = {file: to_heads(read_checkpoint(file), file, say) for file in files}
    heads = {name: array for part in parts.values() for name, array in part.items()}
    shapes = shapes_of(heads, raw_width)
    belongs = [("bottleneck.", "bn."), ("fc.",)] if len(files) == 2 else [("",)]
    for (file, part), prefixes in zip(parts.items(), belongs, strict=True):
        check_arrays(part, {k: s for k, s in shapes.items() if k.startswith(prefixes)}, str(file))
    return {name: heads[name] for name in shapes}


def shapes_of(heads, raw_width):
    """What heads must look like: D and C are the file's own, R is the backbone's."""

    def size(name, unknown):
        return len(heads[name]) if name in heads and heads[name].ndim else unknown

    return source_shapes(raw_width, size("bottleneck.bias", "D"), size("fc.bias", "C"))


def save_source(folder, domain, backbone_name, backbone, heads, classes=None):
    """Writes the heads and the backbone as docs/bank.md describes them."""
    folder = Path(folder)
    check_arrays(heads, shapes_of(heads, width_of(backbone)), f"heads of '{domain}'")
    folder.mkdir(parents=True, exist_ok=True)
    save_backbone(folder / f"{domain}.backbone.safetensors", backbone_name, backbone)
    save_heads(folder, domain, heads, classes)


def save_backbone(path, name, backbone):
    weights = {key: tensor.cpu().numpy() for key, tensor in backbone.state_dict().items()}
    write_safetensors(path, weights, metadata_of(name))


def convert_backbone(source, output, name, **options):
    """A checkpoint in any known naming into the file that both frameworks read."""
    save_backbone(output, name, open_backbone(source, name, **options))


def save_heads(folder, domain, heads, classes=None):
    """`<domain>.safetensors`; the class order, where it is known, travels with it."""
    folder.mkdir(parents=True, exist_ok=True)
    as_float = {name: np.asarray(array, np.float32) for name, array in heads.items()}
    metadata = {} if classes is None else {"classes": json.dumps(list(classes))}
    write_safetensors(folder / f"{domain}.safetensors", as_float, metadata)
