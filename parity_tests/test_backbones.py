"""Backbones against timm's with the same weights: features, gradients, statistics."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest

from ms_biaten.backbones import make_backbone, save_weights
from ms_biaten.backbones.weights import parameters_of
from ms_biaten.runtime import Graph
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.images import Transform, center_view, read_image
from parity_tests.backbones import CASES, LITE0, THIN, TINY, difference, drawn, twins
from parity_tests.harness import MODES, error, ms, torch
from tests.test_backbones import SWIN
from torch_ref import backbones as theirs
from torch_ref.importers import save_backbone

LIMIT = 1e-5
COMPILED = ("swin, padded windows", "resnet50", "lite0, odd")  # compiling takes its seconds


@pytest.mark.parametrize("case", CASES)
def test_features(case, tmp_path):
    name, size, options = CASES[case]
    ours, mirror = twins(name, tmp_path, size, **options)
    for mode in MODES if case in COMPILED else ("pynative",):
        assert difference(ours, mirror, drawn(size), mode) <= LIMIT, mode


def test_swin_tiny_as_published(tmp_path):
    ours, mirror = twins(SWIN, tmp_path, 224)
    for mode in MODES:
        assert difference(ours, mirror, drawn(224, 1), mode) <= LIMIT, mode


def test_sizes_that_swin_refuses_fail_in_timm_too():
    options = {**TINY, "window_size": 2, "image_size": 68}
    with pytest.raises(UserError, match="in timm neither"):
        make_backbone(SWIN, **options)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        theirs.make_backbone(SWIN, **options)(torch.from_numpy(drawn(68)))


def gradients_of(ours, mirror, images, mode):
    """Of every parameter, under a random cotangent of the features."""
    names = {n: p for n, p in parameters_of(ours).items() if p.requires_grad}
    weight = np.random.default_rng(1).normal(size=(len(images), ours.width)).astype(np.float32)

    def total(x):
        return (ours(x) * ms.Tensor(weight)).sum()

    differentiate = ms.grad(total, None, list(names.values()))
    differentiate = Graph(differentiate) if mode == "graph" else differentiate
    made = differentiate(ms.Tensor(images))
    (mirror(torch.from_numpy(images)) * torch.from_numpy(weight)).sum().backward()
    expected = {name: p.grad.numpy() for name, p in mirror.named_parameters()}
    assert names.keys() == expected.keys()
    return {name: (g.asnumpy(), expected[name]) for name, g in zip(names, made, strict=True)}


SWINS = {
    "positions": (96, {"window_size": 7, "absolute_position": True}),
    "one token at the end": (32, {"window_size": 2}),
}


@pytest.mark.parametrize("case", SWINS)
@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_swin(mode, case, tmp_path):
    size, options = SWINS[case]
    ours, mirror = twins(SWIN, tmp_path, size, **TINY, **options)
    pairs = gradients_of(ours, mirror, drawn(size), mode)
    assert max(error(*pair) for pair in pairs.values()) <= LIMIT


@pytest.mark.parametrize("name, options", [("resnet50", THIN), (LITE0, {})])
def test_training_with_batch_statistics(name, options, tmp_path):
    ours, mirror = twins(name, tmp_path, 64, **options)
    ours.set_train(True)
    mirror.train()
    pairs = gradients_of(ours, mirror, drawn(64, 4), "pynative")
    # Shifts that the next normalisation takes out again have gradient 0; what is left is rounding,
    # in Lite0 2e-5 from float64 for PyTorch as for MindSpore.
    assert max(error(*pair) for pair in pairs.values()) <= 1e-4
    moved = {n: p.asnumpy() for n, p in parameters_of(ours).items() if "running" in n}
    state = theirs.state_of(mirror)
    assert max(error(array, state[n].numpy()) for n, array in moved.items()) <= LIMIT


def test_lite0_with_its_imagenet_weights_on_photographs(tmp_path):
    from torch_ref.lite0 import lite0_weights

    mirror = theirs.make_backbone(LITE0, weights=lite0_weights())
    save_backbone(tmp_path / "a.safetensors", LITE0, mirror)
    ours = make_backbone(LITE0, weights=tmp_path / "a.safetensors")
    assert difference(ours, mirror, photographs()) <= LIMIT


def photographs():
    """Two real ones, that come with matplotlib."""
    folder = Path(matplotlib.get_data_path()) / "sample_data"
    files = (folder / "grace_hopper.jpg", folder / "Minduka_Present_Blue_Pack.png")
    return np.stack([center_view(read_image(file), Transform()) for file in files])


def test_what_mindspore_writes_timm_reads(tmp_path):
    ours = make_backbone("resnet50", **THIN)
    save_weights(ours, tmp_path / "a.safetensors")
    mirror = theirs.make_backbone("resnet50", weights=tmp_path / "a.safetensors", **THIN)
    with torch.no_grad():
        expected = mirror(torch.from_numpy(drawn(64))).numpy()
    assert error(ours(ms.Tensor(drawn(64))).asnumpy(), expected) <= LIMIT


SMALL = ((SWIN, {**TINY, "image_size": 64}), ("resnet50", THIN), (LITE0, {}))


def test_normalisations_are_those_of_timm():
    """An epsilon of 1e-5 is hardly seen in features of variance 1: compared by itself."""
    for name, options in SMALL:
        made = dict(make_backbone(name, **options).cells_and_names())
        for place, module in theirs.make_backbone(name, **options).named_modules():
            if isinstance(module, torch.nn.LayerNorm):
                assert made[place].epsilon == module.eps
            elif isinstance(module, torch.nn.BatchNorm2d):
                assert made[place].eps == module.eps


def test_names_are_the_models_own():
    """Optimisers and checkpoints go by `Parameter.name`, files here by the place in the cell."""
    for name, options in SMALL:
        for place, parameter in make_backbone(name, **options).parameters_and_names():
            assert parameter.name == place
