"""Checkpoints of other projects: the same features, or an error that says why not."""

import os
import pickle
import re
from contextlib import suppress

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.renaming import renamed, swin_to_timm
from ms_biaten.spec.weights import load_heads, source_shapes
from tests.test_backbones import SWIN, TINY, features, scrambled, tiny_swin
from torch_ref.backbones import make_backbone
from torch_ref.checkpoints import read_checkpoint
from torch_ref.importers import load_source_model, save_source
from torch_ref.torchvision_shim import import_timm

THIN = {"layers": (1, 1, 1, 1), "channels": (8, 16, 24, 32)}  # of a ResNet


def original_swin(state):
    """timm's names -> Microsoft's: the downsampling of a stage moves to the stage before."""

    def earlier(stage):
        return f"layers.{int(stage[1]) - 1}.downsample"

    names = {"patch_embed.absolute_pos_embed": "absolute_pos_embed"}
    return {
        names.get(k, re.sub(r"layers\.(\d)\.downsample", earlier, k)): v for k, v in state.items()
    }


def heads(raw=96, width=5, classes=7):
    generator = np.random.default_rng(0)
    shapes = source_shapes(raw, width, classes)
    return {k: generator.random(s, dtype=np.float32) + 0.1 for k, s in shapes.items()}


def tensors(arrays, *prefixes):
    return {k: torch.from_numpy(a) for k, a in arrays.items() if k.startswith(prefixes)}


def save_heads(arrays, bottleneck, classifier):
    counter = {"bn.num_batches_tracked": torch.tensor(9)}
    torch.save({**tensors(arrays, "bottleneck.", "bn."), **counter}, bottleneck)
    torch.save(tensors(arrays, "fc."), classifier)


def write_release(folder, model, arrays, domain="clipart"):
    """The three files of the authors' release; its split helper kept parameters only."""
    torch.save(original_swin(dict(model.named_parameters())), folder / f"{domain}_backbone.pth")
    files = (folder / f"{domain}_{part}.pth" for part in ("bottleneck", "myclf"))
    save_heads(arrays, *files)


def same(loaded, expected):
    assert loaded.keys() == expected.keys()
    assert all((loaded[name] == expected[name]).all() for name in expected)


def fault(call, *arguments, **options):
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def load_tiny(path, **options):
    return make_backbone(SWIN, weights=path, **TINY, **options)


# -- backbones -----------------------------------------------------------------------------------


def with_buffers(model):
    return {**model.state_dict(), **dict(model.named_buffers())}


FORMATS = {
    "timm": lambda m: m.state_dict(),
    "timm, with its classifier": lambda m: {
        **m.state_dict(),
        "head.fc.weight": torch.ones(3, 96),
        "head.fc.bias": torch.ones(3),
    },
    "original Swin": lambda m: original_swin(m.state_dict()),
    "with buffers and classifier": lambda m: {
        **original_swin(with_buffers(m)),
        "head.weight": torch.ones(3, 96),
        "head.bias": torch.ones(3),
    },
    "wrapped": lambda m: {"model": original_swin(m.state_dict()), "epoch": 3},
    "wrapped twice": lambda m: {"state_dict": {"model": m.state_dict()}, "lr": 0.1},
    "data-parallel": lambda m: {f"module.{k}": v for k, v in m.state_dict().items()},
    "PMTrans": lambda m: {
        "model": {
            **{f"backbone.{k}": v for k, v in original_swin(with_buffers(m)).items()},
            "my_fc_head.fc1.weight": torch.ones(4, 96),
            "s_dist_alpha": torch.ones(1),
        }
    },
}


@pytest.mark.parametrize("form", FORMATS)
def test_a_backbone_in_any_naming_gives_the_same_features(form, tmp_path, capsys):
    model = tiny_swin()
    torch.save(FORMATS[form](model), tmp_path / "a.pth")
    assert torch.equal(features(load_tiny(tmp_path / "a.pth")), features(model))
    told = capsys.readouterr().out
    assert ("left out head" in told) == ("classifier" in form)
    assert ("left out my_fc_head, s_dist_alpha" in told) == (form == "PMTrans")


def test_safetensors_and_half_precision_are_read(tmp_path):
    model = tiny_swin()
    save_file(model.state_dict(), tmp_path / "a.safetensors")
    assert torch.equal(features(load_tiny(tmp_path / "a.safetensors")), features(model))
    torch.save({k: v.bfloat16() for k, v in model.state_dict().items()}, tmp_path / "half.pth")
    half = load_tiny(tmp_path / "half.pth")
    assert half.norm.weight.dtype == torch.float32
    assert torch.equal(half.norm.weight, model.norm.weight.bfloat16().float())


def test_the_renaming_is_that_of_timm_itself():
    model = tiny_swin()
    old = original_swin(with_buffers(model))
    filtered = import_timm().models.swin_transformer.checkpoint_filter_fn(old, model)
    ours = swin_to_timm(old, "here")
    assert {k for k in ours if not k.endswith(("_index", "attn_mask"))} == filtered.keys()
    assert all(ours[k] is filtered[k] for k in filtered)


def test_torchvisions_resnet_is_timms(tmp_path):
    """SHOT and DECISION keep torchvision's ResNet without its classifier."""
    import_timm()
    from torchvision.models import resnet18

    theirs = scrambled(resnet18()).eval()
    theirs.fc = torch.nn.Identity()
    torch.save(theirs.state_dict(), tmp_path / "source_F.pt")
    ours = make_backbone("resnet18", weights=tmp_path / "source_F.pt")
    assert torch.allclose(features(ours), features(theirs), rtol=1e-5)


def test_absolute_positions_must_be_on_both_sides(tmp_path):
    plain, placed = tiny_swin(), tiny_swin(absolute_position=True)
    for name, model in (("plain", plain), ("placed", placed)):
        torch.save(original_swin(model.state_dict()), tmp_path / f"{name}.pth")
    assert "absolute_pos_embed" in read_checkpoint(tmp_path / "placed.pth")

    again = load_tiny(tmp_path / "placed.pth", absolute_position=True)
    assert torch.equal(features(again), features(placed))
    message = fault(load_tiny, tmp_path / "placed.pth")
    assert "absolute_position=True" in message
    message = fault(load_tiny, tmp_path / "plain.pth", absolute_position=True)
    assert "absolute_position=False" in message


def test_missing_unexpected_and_misshaped_keys_are_all_listed(tmp_path):
    state = tiny_swin().state_dict()
    del state["norm.bias"]
    state["extra.weight"] = torch.ones(1)
    state["norm.weight"] = torch.ones(95)
    state["patch_embed.norm.bias"] = torch.full((12,), torch.nan)
    state["head.weight"] = torch.ones(3, 95)  # no classifier of 96 features
    state["head.bias"] = torch.ones(3)
    torch.save(state, tmp_path / "a.pth")
    message = fault(load_tiny, tmp_path / "a.pth")
    for part in (
        str(tmp_path / "a.pth"),
        SWIN,
        "missing norm.bias (96,)",
        "unexpected extra.weight",
        "norm.weight is (95,), expected (96,)",
        "patch_embed.norm.bias holds NaN",
        "unexpected head.weight",
    ):
        assert part in message


def test_another_architecture_is_told_in_one_short_line(tmp_path):
    torch.save(make_backbone("resnet18", **THIN).state_dict(), tmp_path / "a.pth")
    message = fault(load_tiny, tmp_path / "a.pth")
    assert f"not the weights of {SWIN}" in message
    assert "missing patch_embed.proj.weight" in message
    assert "unexpected conv1.weight" in message
    assert re.search(r"and \d+ more$", message)
    assert len(message) < 700


def test_two_names_for_one_tensor_are_refused():
    message = fault(renamed, {"a": 1, "b": 2}, lambda _: "c", "here")
    assert message == "here: holds c twice, once as b; keep one of them"


# -- files that are not what they should be --------------------------------------------------------


class Malice:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("inside", [True, False])
def test_a_pickle_that_would_run_code_is_refused_unread(protocol, inside, tmp_path):
    path, trace = tmp_path / "a.pth", tmp_path / "trace"
    if inside:  # beside honest weights
        state = {"norm.weight": torch.ones(2), "extra": Malice(str(trace))}
        torch.save(state, path, pickle_protocol=protocol)
    else:
        path.write_bytes(pickle.dumps(Malice(str(trace)), protocol))
    assert str(path) in fault(read_checkpoint, path)
    assert not trace.exists()

    # Where it is allowed to, the file leaves its trace: the test would have seen it.
    with suppress(RuntimeError):
        torch.load(path, weights_only=False)
    assert trace.exists()


def test_what_a_pickle_needs_is_named(tmp_path):
    import argparse

    torch.save({"model": {}, "config": argparse.Namespace(lr=1)}, tmp_path / "a.pth")
    message = fault(load_tiny, tmp_path / "a.pth")
    assert "argparse.Namespace" in message
    assert "save the state_dict by itself" in message


@pytest.mark.parametrize("suffix", ["pth", "safetensors", "legacy"])
@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_a_file_cut_short_is_told(suffix, kept, tmp_path):
    path, state = tmp_path / f"a.{suffix}", {"a": torch.ones(500), "b": torch.ones(500)}
    if suffix == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=suffix == "pth")
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    assert str(path) in fault(read_checkpoint, path)


@pytest.mark.parametrize(
    "content, message",
    [
        ([torch.ones(2)], "holds a list"),
        ({}, "holds nothing"),
        ({"norm.weight": torch.ones(2), "epoch": 3}, r"holds 'epoch' \(int\)"),
        ({"model": {"a": torch.ones(1)}, "state_dict": {"a": torch.ones(1)}}, "both model and"),
        ({0: torch.ones(2)}, r"holds 0 \(Tensor\)"),
        ({"a": torch.ones(2).to_sparse()}, r"holds 'a' \(Tensor\)"),
    ],
)
def test_what_is_no_dict_of_tensors_is_told(content, message, tmp_path):
    torch.save(content, tmp_path / "a.pth")
    assert re.search(message, fault(read_checkpoint, tmp_path / "a.pth"))


# -- whole sources ---------------------------------------------------------------------------------


def test_the_authors_release(tmp_path):
    model, arrays = tiny_swin(), heads()
    write_release(tmp_path, model, arrays)
    backbone, loaded = load_source_model(tmp_path, "clipart", SWIN, **TINY)
    assert torch.equal(features(backbone), features(model))
    same(loaded, arrays)


@pytest.mark.parametrize("below", ["A", "."])
def test_shot_and_decision(below, tmp_path):
    folder = tmp_path / below
    folder.mkdir(exist_ok=True)
    model, arrays = scrambled(make_backbone("resnet18", **THIN)), heads(raw=32)
    torch.save(model.state_dict(), folder / "source_F.pt")
    save_heads(arrays, folder / "source_B.pt", folder / "source_C.pt")
    backbone, loaded = load_source_model(tmp_path, "amazon", "resnet18", **THIN)
    assert torch.equal(features(backbone), features(model))
    same(loaded, arrays)


def test_todays_names_of_weight_norm(tmp_path):
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(5, 7))
    write_release(tmp_path, tiny_swin(), heads())
    torch.save(
        {f"fc.{k}": v for k, v in layer.state_dict().items()}, tmp_path / "clipart_myclf.pth"
    )
    _, loaded = load_source_model(tmp_path, "clipart", SWIN, **TINY)
    v, g = (torch.from_numpy(loaded[f"fc.weight_{x}"]) for x in "vg")
    assert torch.allclose(g * v / v.norm(dim=1, keepdim=True), layer.weight, atol=1e-6)


@pytest.mark.parametrize("absolute_position", [False, True])
def test_a_source_of_ours_survives_the_disk(absolute_position, tmp_path):
    folder, options = tmp_path / "new/sources", {**TINY, "absolute_position": absolute_position}
    model, arrays = scrambled(make_backbone(SWIN, **options)), heads()
    arrays["bottleneck.weight"] = np.asfortranarray(arrays["bottleneck.weight"])
    save_source(folder, "real", SWIN, model, arrays)
    assert sorted(p.name for p in folder.iterdir()) == [
        "real.backbone.safetensors",
        "real.safetensors",
    ]
    backbone, loaded = load_source_model(folder, "real", SWIN, **options)
    assert torch.equal(features(backbone), features(model))
    same(loaded, arrays)
    same(load_heads(folder, ["real"], [f"class {c}" for c in range(7)], 96, 5)[0], arrays)
    with safe_open(folder / "real.backbone.safetensors", "pt") as file:
        assert file.metadata() == {"format": "ms_biaten.backbone", "model": SWIN}
    assert "ask for swin_tiny" in fault(load_source_model, folder, "real", "resnet18")


def test_timm_itself_reads_our_backbones(tmp_path):
    model = scrambled(make_backbone("resnet18", **THIN))
    save_source(tmp_path, "real", "resnet18", model, heads(raw=32))
    path = str(tmp_path / "real.backbone.safetensors")
    theirs = import_timm().create_model("resnet18", num_classes=0, checkpoint_path=path, **THIN)
    assert torch.equal(features(theirs.eval()), features(model))


def test_heads_that_do_not_fit_are_told_with_their_file(tmp_path):
    model, arrays = tiny_swin(), heads(raw=95)
    del arrays["fc.weight_g"]
    write_release(tmp_path, model, arrays)
    message = fault(load_source_model, tmp_path, "clipart", SWIN, **TINY)
    assert "clipart_bottleneck.pth: bottleneck.weight is (5, 95), expected (5, 96)" in message

    write_release(tmp_path, model, {**heads(), **tensor_names(heads(width=6), "fc.")})
    message = fault(load_source_model, tmp_path, "clipart", SWIN, **TINY)
    assert "clipart_myclf.pth: fc.weight_v is (7, 6), expected (7, 5)" in message

    torch.save({"my_fc_head.fc1.weight": torch.ones(2)}, tmp_path / "clipart_myclf.pth")
    message = fault(load_source_model, tmp_path, "clipart", SWIN, **TINY)
    assert "missing fc.weight_g ('C', 1); unexpected my_fc_head.fc1.weight" in message

    (tmp_path / "clipart_myclf.pth").unlink()
    message = fault(load_source_model, tmp_path, "clipart", SWIN, **TINY)
    assert "no checkpoint at" in message and "clipart_myclf.pth" in message

    message = fault(save_source, tmp_path / "new", "clipart", SWIN, model, heads(raw=95))
    assert "heads of 'clipart': bottleneck.weight is (5, 95)" in message
    assert not (tmp_path / "new").exists()


def tensor_names(arrays, prefix):
    return {k: a for k, a in arrays.items() if k.startswith(prefix)}


def test_a_folder_with_no_source_or_two_is_told(tmp_path):
    message = fault(load_source_model, tmp_path, "clipart", SWIN)
    assert "looked for clipart.backbone.safetensors, clipart_backbone.pth, C/source_F.pt" in message
    write_release(tmp_path, tiny_swin(), heads())
    save_source(tmp_path, "clipart", SWIN, tiny_swin(), heads())
    assert "are both there" in fault(load_source_model, tmp_path, "clipart", SWIN)


def old_efficientnet(state):
    """timm's EfficientNet-Lite under the names of the efficientnet-pytorch packages."""
    blocks = list(dict.fromkeys(tuple(k.split(".")[1:3]) for k in state if k.startswith("blocks.")))
    around = {"conv_stem": "_conv_stem", "bn1": "_bn0", "conv_head": "_conv_head", "bn2": "_bn1"}
    deep = {"conv_pw": "_expand_conv", "bn1": "_bn0", "conv_dw": "_depthwise_conv", "bn2": "_bn1"}
    deep |= {"conv_pwl": "_project_conv", "bn3": "_bn2"}
    flat = {"conv_dw": "_depthwise_conv", "bn1": "_bn1", "conv_pw": "_project_conv", "bn2": "_bn2"}
    result = {}
    for name, tensor in state.items():
        first, *rest = name.split(".")
        if first == "blocks":
            stage, index, part, *tail = rest
            names = deep if f"blocks.{stage}.{index}.conv_pwl.weight" in state else flat
            number = str(blocks.index((stage, index)))
            result[".".join(["_blocks", number, names[part], *tail])] = tensor
        else:
            result[".".join([around[first], *rest])] = tensor
    return result


def test_efficientnet_lite_of_the_package_index(tmp_path):
    name = "tf_efficientnet_lite0"
    model = scrambled(make_backbone(name, image_size=32))
    foreign = {**old_efficientnet(model.state_dict()), "_fc.weight": torch.zeros(9, 1280)}
    torch.save({**foreign, "_fc.bias": torch.zeros(9)}, tmp_path / "lite0.pth")
    loaded = make_backbone(name, weights=tmp_path / "lite0.pth", image_size=32)
    assert torch.equal(features(loaded), features(model))
    foreign["_blocks.16._bn1.weight"] = torch.zeros(9)  # one block more than the model has
    torch.save(foreign, tmp_path / "deeper.pth")
    line = fault(make_backbone, name, weights=tmp_path / "deeper.pth", image_size=32)
    assert "unexpected _blocks.16._bn1.weight" in line
