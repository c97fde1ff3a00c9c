"""A backbone for inference alone: every batch normalisation inside the convolution before it."""

import itertools

from mindspore import Tensor, nn

from ms_biaten.spec.folding import fold_convolution


def fold_normalisations(model):
    """In place; a BatchNorm2d that a cell declares right after a Conv2d is the one that follows it.

    So it is in ResNet and EfficientNet here; Swin has none.
    """
    for _, cell in list(model.cells_and_names()):
        children = list(cell.name_cells().items())
        for (name, conv), (place, norm) in itertools.pairwise(children):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                put(cell, name, folded(conv, norm))
                put(cell, place, nn.Identity())
    return model.set_train(False)


def folded(conv, norm):
    parts = (norm.gamma, norm.beta, norm.moving_mean, norm.moving_variance)
    weight, bias = fold_convolution(
        conv.weight.asnumpy(), tuple(part.asnumpy() for part in parts), norm.eps
    )
    made = nn.Conv2d(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        conv.stride,
        conv.pad_mode,
        conv.padding,
        group=conv.group,
        has_bias=True,
    )
    made.weight.set_data(Tensor(weight))
    made.bias.set_data(Tensor(bias))
    return made


def put(cell, name, made):
    if isinstance(cell, nn.SequentialCell):
        cell[int(name)] = made
    else:
        setattr(cell, name, made)
