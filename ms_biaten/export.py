"""The adapted ensemble as one MindIR graph with a dynamic batch."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from ms_biaten.backbones.folding import fold_normalisations
from ms_biaten.runtime import half_precision
from ms_biaten.spec.folding import fold_bottlenecks
from ms_biaten.spec.images import MEAN, STD

EXPORTED = "mindir"  # the ending of what is written


class FoldedBottlenecks(nn.Cell):
    """raw (B,N,R) -> phi (B,N,D): one linear layer a source, normalisation inside."""

    def __init__(self, weight, bias):
        super().__init__()
        self.weight = Parameter(Tensor(weight), requires_grad=False)
        self.bias = Parameter(Tensor(bias), requires_grad=False)

    def construct(self, raw):
        return (ops.bmm(raw.swapaxes(0, 1), self.weight) + self.bias).swapaxes(0, 1)


class Sight(nn.Cell):
    """Bytes (B,H,W,3) -> raw (B,N,R): normalisation of the pixels, and every source's backbone."""

    def __init__(self, backbones):
        super().__init__()
        self.scale = Tensor(1 / (255 * STD))
        self.shift = Tensor(-MEAN / STD)
        self.backbones = nn.CellList(backbones)

    def construct(self, images):
        pixels = images.astype(ms.float32) * self.scale + self.shift
        pixels = pixels.transpose(0, 3, 1, 2)
        # Not `stack`: with a dynamic batch its CPU kernel mixes the rows up.
        raw = [cell(pixels).astype(ms.float32).expand_dims(1) for cell in self.backbones]
        return ops.cat(raw, 1)


class Served(nn.Cell):
    """Raw features -> probabilities (B,C), beta (B,N), alpha (B,N,N) as it is used."""

    def __init__(self, sight, model, learned):
        super().__init__()
        self.sight, self.model, self.learned = sight, model, learned

    def construct(self, features):
        return self.answer(features)

    def answer(self, raw):
        _, _, _, alpha, beta, y = self.model(raw, self.learned)
        return ops.softmax(y, -1), beta, alpha


class ServedImages(Served):
    """The same of images. A class of its own: MindIR names an input by its argument."""

    def construct(self, images):
        return self.answer(self.sight(images))


def served_of(adapted, from_images):
    """The graph to be written; it takes over the model and folds what is frozen in it."""
    model = adapted.engine.model
    arrays = {n.removeprefix("model."): t.asnumpy() for n, t in adapted.engine.weights().items()}
    model.bottlenecks = FoldedBottlenecks(*fold_bottlenecks(arrays))
    if not from_images:
        return Served(None, model, adapted.engine.evaluate_with).set_train(False)
    precision = adapted.config.run.precision
    folded = [fold_normalisations(backbone) for backbone in adapted.backbones]
    sight = Sight([half_precision(backbone, precision) for backbone in folded])
    return ServedImages(sight, model, adapted.engine.evaluate_with).set_train(False)


def export(adapted, shape, from_images, path):
    """Writes `path`.mindir for inputs of this shape without its batch."""
    kind = ms.uint8 if from_images else ms.float32
    served = served_of(adapted, from_images)
    ms.export(
        served, Tensor(shape=[None, *shape], dtype=kind), file_name=str(path), file_format="MINDIR"
    )


def run_exported(path, batches):
    """The file's outputs for every batch, by nothing but MindSpore."""
    graph = nn.GraphCell(ms.load(str(path)))
    return [[x.asnumpy() for x in graph(Tensor(np.ascontiguousarray(b)))] for b in batches]
