"""Backbones by the names that timm gives them."""

import inspect

from ms_biaten.backbones import efficientnet, resnet, swin
from ms_biaten.backbones.weights import load_weights
from ms_biaten.spec.errors import UserError, nearest

FAMILIES = {
    swin.Swin: swin.VARIANTS,
    resnet.ResNet: resnet.VARIANTS,
    efficientnet.EfficientNetLite: efficientnet.VARIANTS,
}
BACKBONES = {
    name: (family, options)
    for family, variants in FAMILIES.items()
    for name, options in variants.items()
}


def make_backbone(name, weights=None, image_size=224, absolute_position=False, **options):
    """A cell in evaluation mode that maps images to features; see `torch_ref.backbones`.

    weights            a .safetensors or .ckpt file to load, strictly; without it they are random
    image_size         a side or (height, width); only Swin is made for one size
    absolute_position  Swin with absolute_pos_embed, an option of its authors
    options            timm's, for example depths or window_size
    """
    plain = name.split(".")[0]  # timm's tag after the dot only names a set of weights
    if plain not in BACKBONES:
        raise UserError(f"backbone '{name}' is none of MindSpore's; {nearest(plain, BACKBONES)}")
    family, defaults = BACKBONES[plain]
    if family is swin.Swin:
        options = {"image_size": image_size, "absolute_position": absolute_position, **options}
    elif absolute_position:
        raise UserError(f"absolute_position is an option of Swin; '{name}' is none")
    known = inspect.signature(family.__init__).parameters
    for option in options:
        if option not in known or option == "self":
            raise UserError(f"backbone '{name}' has no option '{option}'; it takes {taken(known)}")
    try:
        model = family(**{**defaults, **options})
    except (TypeError, ValueError) as error:
        raise UserError(f"backbone '{name}' with {options}: {error}") from None
    model.backbone_name = name
    if weights:
        load_weights(model, weights)
    return model.set_train(False)


def taken(parameters):
    return ", ".join(name for name in parameters if name != "self") or "none"


def width_of(model):
    """R, the number of features."""
    return model.width
