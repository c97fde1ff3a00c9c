"""Backbones give pooled features, take images of their size, and reach for no network."""

import copy

import pytest
import torch

from ms_biaten.spec.errors import UserError
from tests.conftest import ROOT
from torch_ref.backbones import feature_width, make_backbone
from torch_ref.torchvision_shim import SYMPTOM, import_timm

SWIN = "swin_tiny_patch4_window7_224"
TINY = {
    "embed_dim": 12,
    "depths": (1, 1, 2, 1),
    "num_heads": (1, 2, 3, 6),
    "image_size": 64,
    "window_size": 2,
}


def scrambled(model, seed=0):
    """Every tensor random, so that two in each other's place are noticed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.ndim > 1:
                tensor.normal_(generator=generator).div_(tensor[0].numel() ** 0.5)
            elif tensor.ndim == 1:  # scales, shifts, running statistics
                tensor.uniform_(0.5, 1.5, generator=generator)
    return model


def tiny_swin(**options):
    return scrambled(make_backbone(SWIN, **TINY, **options))


def images(size=64):
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def features(model, size=64):
    return model(images(size))


def test_swin_pools_its_normed_tokens():
    model = tiny_swin()
    with torch.no_grad():
        tokens = model.layers(model.patch_embed(images()))  # (B,H,W,R)
        by_hand = torch.nn.functional.layer_norm(
            tokens, (96,), model.norm.weight, model.norm.bias
        ).flatten(1, 2)
    assert by_hand.shape == (2, 4, 96)
    assert torch.allclose(features(model), by_hand.mean(1), atol=1e-6)


def test_swin_is_timms_own_without_its_classifier():
    options = {**TINY, "img_size": TINY["image_size"]}
    del options["image_size"]
    whole = import_timm().create_model(SWIN, num_classes=5, **options).eval()
    model = make_backbone(SWIN, **TINY)
    model.load_state_dict(
        {name: tensor for name, tensor in whole.state_dict().items() if "head" not in name}
    )
    with torch.no_grad():
        pooled = whole.forward_head(whole.forward_features(images()), pre_logits=True)
    assert torch.equal(features(model), pooled)


@pytest.mark.parametrize(
    "name, width",
    [
        ("swin_base_patch4_window7_224", 1024),
        ("swin_base_patch4_window7_224.ms_in22k_ft_in1k", 1024),
        ("resnet50", 2048),
        ("tf_efficientnet_lite0", 1280),
        ("mobilenetv3_large_100", 1280),  # its last feature map has 960
        ("vit_small_patch16_224", 384),
    ],
)
def test_the_width_is_known_without_weights(name, width):
    assert feature_width(name) == width


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050"])
def test_any_model_gives_its_width(name):
    assert features(make_backbone(name)).shape == (2, feature_width(name))


def test_absolute_positions_shift_the_patches():
    plain, placed = tiny_swin(), make_backbone(SWIN, absolute_position=True, **TINY)
    placed.load_state_dict(plain.state_dict(), strict=False)
    assert torch.equal(features(placed), features(plain))  # zero at first

    with torch.no_grad():
        placed.patch_embed.absolute_pos_embed.normal_()
        position = placed.patch_embed.absolute_pos_embed  # (1,16*16,12)
        shifted = plain.patch_embed(images()).flatten(1, 2) + position
        by_hand = plain.norm(plain.layers(shifted.reshape(2, 16, 16, 12))).mean((1, 2))
    assert torch.equal(features(placed), by_hand)

    twin = copy.deepcopy(placed)
    with torch.no_grad():
        twin.patch_embed.absolute_pos_embed.zero_()
    assert torch.equal(features(twin), features(plain))
    assert torch.equal(features(placed), by_hand)


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("swin_base_patch4_windw7_224", {}, "did you mean swin_base_patch4_window7_224"),
        ("hf-hub:someone/something", {}, "is no model of timm"),
        ("resnet18", {"depth": 3}, "timm refuses it"),
        ("resnet18.no_such_tag", {}, "timm refuses it"),
        ("resnet18", {"absolute_position": True}, "an option of Swin"),
        ("resnet18", {"weights": "a.pth", "download": True}, "weights come from one place"),
        ("resnet18", {"weights": "nowhere.pth"}, "no checkpoint at nowhere.pth"),
    ],
)
def test_what_cannot_be_built_is_told(name, options, message, folder):
    with pytest.raises(UserError, match=message):
        make_backbone(name, **options)


def test_nothing_is_downloaded_unless_asked(monkeypatch):
    timm = import_timm()
    asked = []

    def create(name, pretrained, **_):
        asked.append(pretrained)
        raise OSError("no route to the hub\nand more lines")

    monkeypatch.setattr(timm, "create_model", create)
    for download in (False, True):
        with pytest.raises(UserError, match=r"\(no route to the hub\); fetch them elsewhere"):
            make_backbone("resnet18", download=download)
    assert asked == [False, True]


# -- the shim; each in a process of its own, for an import leaves traces -----------------------

USE = (
    "import sys\n"
    "from torch_ref.torchvision_shim import import_timm, shim_used\n"
    "timm = import_timm()\n"
    "print(timm.__name__, shim_used(), 'torch' in sys.modules)"
)


def fake_timm(folder, code):
    (folder / "timm.py").write_text(code)
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


def test_the_shim_is_used_where_torchvision_fails_and_only_there(tmp_path, command):
    plain_first = (
        "try: import torchvision\n"
        "except RuntimeError as error: symptom = str(error)\n"
        "else: symptom = None\n"
        f"{USE}\n"
        "from timm.data import create_transform\n"
        f"assert shim_used() == (symptom == {SYMPTOM!r}), symptom\n"
        "assert import_timm() is timm\n"
    )
    done = command("-c", plain_first, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("timm ")


def test_a_plain_import_that_works_is_left_alone(tmp_path, command):
    done = command("-c", USE, cwd=tmp_path, **fake_timm(tmp_path, ""))
    assert done.stdout.split() == ["timm", "False", "False"], done.stderr


def test_the_symptom_brings_the_shim(tmp_path, command):
    broken_once = (
        "import sys, types\n"
        "if 'torch' not in sys.modules:\n"
        "    sys.modules['torchvision.half'] = types.ModuleType('half')\n"
        f"    raise RuntimeError({SYMPTOM!r})\n"
        "assert 'torchvision.half' not in sys.modules\n"
        "import torch\n"
        "torch.ops.torchvision.nms, torch.ops.torchvision.qnms\n"
    )
    done = command("-c", USE, cwd=tmp_path, **fake_timm(tmp_path, broken_once))
    assert done.stdout.split() == ["timm", "True", "True"], done.stderr


@pytest.mark.parametrize(
    "code, error",
    [
        ("raise RuntimeError('operator torchvision::roi_align does not exist')", "RuntimeError"),
        ("raise ImportError('something else')", "ImportError"),
        ("import torchvision_that_is_not_there", "UserError"),
    ],
)
def test_other_troubles_are_not_hidden(code, error, tmp_path, command):
    use = (
        "from torch_ref.torchvision_shim import import_timm, shim_used\n"
        "try: import_timm()\n"
        "finally: print(shim_used())"
    )
    done = command("-c", use, cwd=tmp_path, **fake_timm(tmp_path, code))
    assert (done.returncode, done.stdout) == (1, "False\n")
    assert error in done.stderr.splitlines()[-1]
