"""Which parts of a backbone are trained, by the beginning of their names in timm."""

from ms_biaten.backbones.weights import parameters_of
from ms_biaten.spec.errors import UserError, nearest

STATISTICS = ("running_mean", "running_var")  # never trained by a gradient


def freeze(model, names):
    """No gradient for the parameters below these names, as 'layers.0' or 'patch_embed.norm'.

    Batch normalisation of a frozen part still follows its batches while the model trains.
    """
    set_trained(model, names, False)


def unfreeze(model, names):
    """These parameters are trained again."""
    set_trained(model, names, True)


def set_trained(model, names, trained):
    chosen = {name: below(model, name) for name in names}  # all looked up before any is changed
    for parameters in chosen.values():
        for parameter in parameters:
            parameter.requires_grad = trained


def below(model, beginning):
    """The parameters under a whole name: 'layers.1' is not the beginning of 'layers.10'."""
    own = parameters_of(model)
    found = [n for n in own if f"{n}.".startswith(f"{beginning}.")]
    if not found:
        parts = {n.rsplit(".", k)[0] for n in own for k in range(1, n.count(".") + 1)}
        raise UserError(
            f"{model.backbone_name}: no part '{beginning}'; {nearest(beginning, parts)}"
        )
    return [own[n] for n in found if not n.endswith(STATISTICS)]
