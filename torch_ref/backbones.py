"""Backbones: images (B,3,H,W) -> raw features (B,R), any model of timm without its classifier."""

import difflib

import torch
from torch import nn

from ms_biaten.spec.console import say
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.renaming import to_timm, without_counters
from ms_biaten.spec.weights import check_arrays
from torch_ref.checkpoints import read_checkpoint
from torch_ref.torchvision_shim import import_timm


def make_backbone(
    name, weights=None, image_size=224, download=False, absolute_position=False, **options
):
    """A timm model in evaluation mode whose forward gives pooled features, R of them.

    weights            a checkpoint to load, strictly; without it the weights are random
    download           fetch timm's pretrained weights: the only way to the network
    absolute_position  Swin with absolute_pos_embed, an option of its authors that timm left out
    options            go to timm, for example depths or window_size
    """
    if weights and download:
        raise UserError("both weights and download are set: weights come from one place")
    model = build(name, image_size, download, options)
    if absolute_position:
        add_positions(model, name)
    if weights:
        load_backbone(model, weights, name)
    return model.eval()


def feature_width(name, **options):
    """R, from a model without memory for its weights."""
    with torch.device("meta"):
        return width_of(build(name, None, False, options))


def width_of(model):
    return model.head_hidden_size  # some models pool `num_features` into a wider layer


def build(name, image_size, download, options):
    timm = import_timm()
    if not timm.is_model(name):
        close = difflib.get_close_matches(name, timm.list_models(), n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "timm.list_models() has them all"
        raise UserError(f"backbone '{name}' is no model of timm; {hint}")
    try:
        # Only models with a fixed grid of patches know an image size; timm's others refuse it.
        if image_size and timm.get_pretrained_cfg(name).fixed_input_size:
            options = {"img_size": image_size, **options}
        return timm.create_model(name, pretrained=download, num_classes=0, **options)
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"backbone '{name}': its weights could not be downloaded ({reason}); "
            "fetch them elsewhere and name the file as weights"
        ) from None
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        raise UserError(f"backbone '{name}' with {options}: timm refuses it ({error})") from None


def add_positions(model, name):
    """A learned vector for every patch, added before the first stage."""
    if not name.startswith("swin_"):
        raise UserError(f"absolute_position is an option of Swin; '{name}' is none")
    patches = model.patch_embed
    positions = torch.zeros(1, patches.num_patches, model.embed_dim)
    patches.absolute_pos_embed = nn.Parameter(positions)
    patches.register_forward_hook(shift_patches)


def shift_patches(patches, _, output):
    """output (B,H,W,E), positions (1,H*W,E); a plain function, so that models can be copied."""
    return output + patches.absolute_pos_embed.reshape(1, *output.shape[1:])


def state_of(model):
    """The tensors that make the features, by timm's names."""
    return without_counters(model.state_dict())


def arrays_of(model):
    """Copies of the same, in the plain order of memory."""
    return {
        name: t.detach().cpu().contiguous().numpy().copy() for name, t in state_of(model).items()
    }


def load_backbone(model, path, name):
    """Fills the model from a checkpoint in timm's, Swin's own, PMTrans' or torchvision's names."""
    own = state_of(model)
    arrays = to_timm(read_checkpoint(path), own, width_of(model), path, say)
    shapes = {key: tuple(tensor.shape) for key, tensor in own.items()}
    check_arrays(arrays, shapes, f"{path}: not the weights of {name} (timm's names)")
    with torch.no_grad():
        for key, tensor in own.items():
            tensor.copy_(torch.from_numpy(arrays[key]))
