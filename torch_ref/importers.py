"""Trained sources, of this project and of others, by PyTorch: `spec.sources` knows their files."""

from ms_biaten.spec.backbone_files import check_model_name, metadata_of
from ms_biaten.spec.sources import find_source, read_heads, shapes_of, write_source
from ms_biaten.spec.weights import check_arrays, read_metadata, write_safetensors
from torch_ref.backbones import arrays_of, make_backbone, width_of
from torch_ref.checkpoints import read_checkpoint


def load_source_model(path, domain, backbone_name, **options):
    """A backbone with its weights, and the heads as arrays; options go to `make_backbone`."""
    backbone_file, *head_files = find_source(path, domain)
    backbone = open_backbone(backbone_file, backbone_name, **options)
    return backbone, read_heads(head_files, width_of(backbone), read_checkpoint)


def open_backbone(path, name, **options):
    """The backbone in a file that says which model it is; another name is refused."""
    check_model_name(path, read_metadata(path), name)
    return make_backbone(name, weights=path, **options)


def save_source(folder, domain, backbone_name, backbone, heads, classes=None):
    """Writes the heads and the backbone as docs/bank.md describes them."""
    check_arrays(heads, shapes_of(heads, width_of(backbone)), f"heads of '{domain}'")
    write_source(folder, domain, backbone_name, arrays_of(backbone), heads, classes)


def save_backbone(path, name, backbone):
    write_safetensors(path, arrays_of(backbone), metadata_of(name))


def convert_backbone(source, output, name, **options):
    """A checkpoint in any known naming into the file that both frameworks read."""
    save_backbone(output, name, open_backbone(source, name, **options))
