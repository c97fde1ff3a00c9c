"""Trained sources by MindSpore: `spec.sources` knows their files."""

from pathlib import Path

from ms_biaten.backbones import arrays_of, make_backbone, width_of
from ms_biaten.spec.backbone_files import check_model_name
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.sources import find_source, read_heads, shapes_of, write_source
from ms_biaten.spec.weights import check_arrays, read_metadata, read_safetensors


def load_source_model(path, domain, backbone_name, **options):
    """A backbone with its weights, and the heads as arrays; options go to `make_backbone`."""
    backbone_file, *head_files = find_source(path, domain)
    backbone = open_backbone(backbone_file, backbone_name, **options)
    return backbone, read_heads(head_files, width_of(backbone), read_arrays)


def open_backbone(path, name, **options):
    """The backbone in a file that says which model it is; another name is refused."""
    check_model_name(path, read_metadata(path), name)
    return make_backbone(name, weights=path, **options)


def save_source(folder, domain, backbone_name, backbone, heads, classes=None):
    """Writes the heads and the backbone as docs/bank.md describes them."""
    check_arrays(heads, shapes_of(heads, width_of(backbone)), f"heads of '{domain}'")
    write_source(folder, domain, backbone_name, arrays_of(backbone), heads, classes)


def read_arrays(path):
    """Pickles are PyTorch's: it reads them once, and writes files that need it no more."""
    if Path(path).suffix != ".safetensors":
        raise UserError(
            f"{path}: MindSpore reads .safetensors; where PyTorch is, `load_source_model` and "
            "`save_source` of torch_ref.importers write it anew (docs/bank.md)"
        )
    return read_safetensors(path)[0]
