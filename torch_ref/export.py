"""The adapted ensemble as one ONNX graph with a dynamic batch."""

import warnings

import torch
from torch import nn

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.folding import fold_bottlenecks
from ms_biaten.spec.images import MEAN, STD

EXPORTED = "onnx"  # the ending of what is written


class FoldedBottlenecks(nn.Module):
    """raw (B,N,R) -> phi (B,N,D): one linear layer a source, normalisation inside."""

    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(weight), requires_grad=False)
        self.bias = nn.Parameter(torch.from_numpy(bias), requires_grad=False)

    def forward(self, raw):
        return (torch.bmm(raw.swapaxes(0, 1), self.weight) + self.bias).swapaxes(0, 1)


class Sight(nn.Module):
    """Bytes (B,H,W,3) -> raw (B,N,R): normalisation of the pixels, and every source's backbone."""

    def __init__(self, backbones):
        super().__init__()
        self.register_buffer("scale", torch.from_numpy(1 / (255 * STD)))
        self.register_buffer("shift", torch.from_numpy(-MEAN / STD))
        self.backbones = nn.ModuleList(backbones)

    def forward(self, images):
        pixels = images.float() * self.scale + self.shift
        pixels = pixels.permute(0, 3, 1, 2)
        return torch.stack([backbone(pixels) for backbone in self.backbones], 1)


class Served(nn.Module):
    """Raw features -> probabilities (B,C), beta (B,N), alpha (B,N,N) as it is used."""

    def __init__(self, sight, model, learned):
        super().__init__()
        self.sight, self.model, self.learned = sight, model, learned

    def forward(self, features):
        return self.answer(features)

    def answer(self, raw):
        _, _, _, alpha, beta, y = self.model(raw, self.learned)
        return torch.softmax(y, -1), beta, alpha


class ServedImages(Served):
    """The same of images."""

    def forward(self, images):
        return self.answer(self.sight(images))


def served_of(adapted, from_images):
    """The graph to be written; it takes over the model and folds what is frozen in it."""
    model = adapted.engine.model
    arrays = {n.removeprefix("model."): t.numpy() for n, t in adapted.engine.weights().items()}
    model.bottlenecks = FoldedBottlenecks(*fold_bottlenecks(arrays))
    if not from_images:
        return Served(None, model, adapted.engine.evaluate_with).eval()
    plain = [b.to(memory_format=torch.contiguous_format) for b in adapted.backbones]
    return ServedImages(Sight(plain), model, adapted.engine.evaluate_with).eval()


def export(adapted, shape, from_images, path):
    """Writes `path`.onnx for inputs of this shape without its batch."""
    onnx = needed("onnx", "onnxscript", "onnxruntime")[0]
    if adapted.config.run.precision != "fp32":
        raise UserError("--precision: ONNX is written in fp32; its runtimes convert it")
    kind = torch.uint8 if from_images else torch.float32
    example = torch.zeros((2, *shape), dtype=kind)
    served = served_of(adapted, from_images)
    file = f"{path}.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        torch.onnx.export(
            served,
            (example,),
            file,
            input_names=["images" if from_images else "features"],
            output_names=["probabilities", "beta", "alpha"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    onnx.checker.check_model(file)


def run_exported(path, batches):
    """The file's outputs for every batch, by nothing but onnxruntime."""
    (runtime,) = needed("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    return [session.run(None, {entry.name: batch}) for batch in batches]


def needed(*names):
    """Packages of the extra [onnx]."""
    import importlib

    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as error:
        raise UserError(f"{error.name} is not installed: pip install '.[torch,onnx]'") from None
