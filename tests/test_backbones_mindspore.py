"""Backbones in MindSpore: what they refuse, what is frozen, which files they read and write."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ms_biaten.runtime import prepare  # isort: skip  (settles MindSpore's log level)
from mindspore import Tensor

from ms_biaten.backbones import (
    freeze,
    load_weights,
    make_backbone,
    save_weights,
    unfreeze,
    width_of,
)
from ms_biaten.backbones.registry import BACKBONES
from ms_biaten.backbones.weights import parameters_of
from ms_biaten.cli import main
from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import UserError
from tests.test_backbones import SWIN, TINY
from torch_ref.backbones import feature_width
from torch_ref.cli import main as torch_main
from torch_ref.torchvision_shim import import_timm

THIN = {"layers": (1, 1, 1, 1), "channels": (8, 16, 24, 32)}
LITE0 = "tf_efficientnet_lite0"

prepare(Config())


@pytest.fixture(scope="module")
def thin():
    return make_backbone("resnet50", **THIN)


@pytest.fixture(scope="module")
def lite0():
    return make_backbone(LITE0)


def fault(call, *arguments, **options):
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def arrays_of(model):
    return {name: p.asnumpy() for name, p in parameters_of(model).items()}


def same(one, other):
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)


# -- the registry ----------------------------------------------------------------------------------


def test_widths_are_those_of_timm(thin, lite0):
    assert (width_of(thin), width_of(lite0)) == (128, feature_width(LITE0))
    assert width_of(make_backbone(SWIN, **TINY)) == 96


def test_names_are_those_of_timm():
    assert [name for name in BACKBONES if not import_timm().is_model(name)] == []


def test_a_tag_names_weights_only():
    tagged = make_backbone(f"{LITE0}.in1k")
    assert width_of(tagged) == 1280 and not tagged.training


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("swin_base_patch4_windw7_224", {}, "did you mean 'swin_base_patch4_window7_224'?"),
        ("resnet18", {}, "did you mean 'resnet"),
        ("resnet50", {"depth": 3}, "no option 'depth'; it takes layers, channels"),
        ("resnet50", {"self": 3}, "no option 'self'"),
        ("resnet50", {"layers": (1, 1)}, "expected four of each"),
        ("resnet50", {"layers": "abcd"}, "backbone 'resnet50' with"),
        ("resnet50", {"absolute_position": True}, "an option of Swin"),
        ("resnet50", {"weights": "nowhere.safetensors"}, "no weights at nowhere.safetensors"),
        (SWIN, {**TINY, "num_heads": (1, 2)}, "expected one number for each"),
        (SWIN, {**TINY, "num_heads": (1, 2, 5, 6)}, "48 channels has no 5 heads"),
        (SWIN, {**TINY, "window_size": (1, 2, 3)}, "one window, or one per stage"),
        (SWIN, {**TINY, "image_size": 24}, "too small for Swin, at least 32"),
        (SWIN, {**TINY, "image_size": 68, "window_size": 2}, "take a multiple of 32"),
    ],
)
def test_what_cannot_be_built_is_told(name, options, message, folder):
    assert message in fault(make_backbone, name, **options)


def test_swin_refuses_images_of_another_size():
    images = Tensor(np.zeros((1, 3, 32, 32), np.float32))
    with pytest.raises(ValueError, match=r"images are \(32, 32\), Swin was built for \(64, 64\)"):
        make_backbone(SWIN, **TINY)(images)


# -- freezing --------------------------------------------------------------------------------------


def test_whole_names_are_frozen_and_statistics_stay_untrained(thin):
    everything = {p.name for p in thin.trainable_params()}
    freeze(thin, ["layer1", "conv1", "layer2.0.bn1"])
    frozen = everything - {p.name for p in thin.trainable_params()}
    assert {name.split(".")[0] for name in frozen} == {"layer1", "conv1", "layer2"}
    assert [name for name in frozen if "layer2" in name and "bn1" not in name] == []
    unfreeze(thin, ["layer1", "conv1", "layer2"])
    assert {p.name for p in thin.trainable_params()} == everything
    assert not any("moving" in name for name in everything)


def test_an_unknown_part_changes_nothing(thin):
    before = len(thin.trainable_params())
    assert "no part 'layer9'; did you mean 'layer" in fault(freeze, thin, ["layer1", "layer9"])
    assert "no part 'layer'" in fault(freeze, thin, ["layer"])
    assert len(thin.trainable_params()) == before


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".safetensors", ".ckpt"])
def test_files_hold_every_weight(ending, thin, tmp_path):
    save_weights(thin, tmp_path / f"a{ending}")
    again = make_backbone("resnet50", weights=tmp_path / f"a{ending}", **THIN)
    same(arrays_of(again), arrays_of(thin))
    assert [file.name for file in tmp_path.iterdir()] == [f"a{ending}"]


def test_a_classifier_is_left_out_and_said(thin, tmp_path, capsys):
    head = {"fc.weight": np.ones((5, 128), np.float32), "fc.bias": np.ones(5, np.float32)}
    save_file({**arrays_of(thin), **head}, tmp_path / "a.safetensors")
    load_weights(thin, tmp_path / "a.safetensors")
    assert "left out fc.*, a linear layer with 5 outputs" in capsys.readouterr().out


def test_every_fault_of_a_file_is_listed(thin, tmp_path):
    arrays = arrays_of(thin)
    before = arrays_of(thin)
    del arrays["layer1.0.bn1.running_mean"]
    arrays["layer9.weight"] = np.ones(3, np.float32)
    arrays["bn1.bias"] = np.ones(3, np.float32)
    save_file(arrays, tmp_path / "a.safetensors")
    message = fault(load_weights, thin, tmp_path / "a.safetensors")
    assert "not the weights of resnet50" in message
    assert "missing layer1.0.bn1.running_mean (8,)" in message
    assert "unexpected layer9.weight" in message
    assert "bn1.bias is (3,), expected (64,)" in message
    same(arrays_of(thin), before)


def test_files_that_are_something_else_are_refused(thin, lite0, tmp_path):
    save_weights(lite0, tmp_path / "lite0.safetensors")
    assert f"holds {LITE0}, asked for as resnet50" in fault(
        load_weights, thin, tmp_path / "lite0.safetensors"
    )
    for ending in (".safetensors", ".ckpt"):
        (tmp_path / f"a{ending}").write_bytes(b"not weights at all" * 9)
        assert f"a{ending}: not a " in fault(load_weights, thin, tmp_path / f"a{ending}")
    (tmp_path / "a.pth").write_bytes(b"")
    assert "`python -m torch_ref convert`" in fault(load_weights, thin, tmp_path / "a.pth")
    assert "written as .safetensors or .ckpt" in fault(save_weights, thin, tmp_path / "a.pth")


def test_a_flipped_bit_of_a_checkpoint_is_noticed(thin, tmp_path):
    file = tmp_path / "a.ckpt"
    save_weights(thin, file)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert "damaged" in fault(load_weights, thin, file)


# -- the commands ----------------------------------------------------------------------------------


def test_convert_there_and_back(lite0, folder, capsys):
    save_weights(lite0, folder / "a.safetensors")
    assert main(["convert", "a.safetensors", "b.ckpt", "--backbone", LITE0]) == 0
    assert main(["convert", "b.ckpt", "c.safetensors", "--backbone", LITE0]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{LITE0}: b.ckpt -> c.safetensors"
    same(load_file("c.safetensors"), load_file("a.safetensors"))


def test_torch_converts_foreign_checkpoints(lite0, folder):
    import torch

    tensors = {f"module.{k}": torch.from_numpy(a.copy()) for k, a in arrays_of(lite0).items()}
    torch.save({"state_dict": tensors}, "a.pth")
    assert torch_main(["convert", "a.pth", "b.safetensors", "--backbone", LITE0]) == 0
    with safe_open("b.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "ms_biaten.backbone", "model": LITE0}
    same(arrays_of(make_backbone(LITE0, weights="b.safetensors")), arrays_of(lite0))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere.ckpt", "b.ckpt"], "no weights at nowhere.ckpt"),
        (["a.ckpt", "b.pth"], "b.pth: ms-biaten writes backbones as .safetensors or .ckpt"),
        (["a.ckpt", "there.ckpt"], "there.ckpt is there already"),
        (["a.ckpt", "no/b.ckpt"], "no folder no; make it first"),
    ],
)
def test_what_cannot_be_converted_is_told(arguments, message, folder, capsys):
    (folder / "there.ckpt").write_bytes(b"mine")
    assert main(["convert", *arguments, "--backbone", LITE0]) == 2
    assert message in capsys.readouterr().err
    assert (folder / "there.ckpt").read_bytes() == b"mine"
