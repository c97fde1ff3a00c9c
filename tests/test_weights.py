"""Source heads on disk, their stacking, and their names."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from ms_biaten.spec.debug import debug_source
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.weights import (
    check_arrays,
    fold_weight_norm,
    load_heads,
    source_shapes,
    stack_sources,
    torch_name,
)

SHAPES = source_shapes(48, 16, 7)
CLASSES = [f"class_{c}" for c in range(7)]


def test_a_source_survives_the_disk(tmp_path):
    source = debug_source("dawn")
    save_file({**source, "bn.num_batches_tracked": np.array(3)}, tmp_path / "dawn.safetensors")
    (loaded,) = load_heads(tmp_path, ["dawn"], CLASSES, 48, 16)
    assert loaded.keys() == source.keys()
    assert all((loaded[name] == source[name]).all() for name in source)


def test_every_fault_is_listed(tmp_path):
    source = debug_source("dawn")
    del source["bn.bias"]
    source["extra"] = np.zeros(2, np.float32)
    source["fc.bias"] = np.zeros(8, np.float32)
    source["bn.weight"] = np.full(16, np.nan, np.float32)
    with pytest.raises(UserError) as caught:
        check_arrays(source, SHAPES, "dawn")
    for fault in (
        "missing bn.bias (16,)",
        "unexpected extra",
        "fc.bias is (8,), expected (7,)",
        "bn.weight holds NaN or Inf",
    ):
        assert fault in str(caught.value)


def test_a_missing_or_foreign_file_is_named(tmp_path):
    with pytest.raises(UserError, match="no source heads at"):
        load_heads(tmp_path, ["dawn"], CLASSES, 48, 16)
    (tmp_path / "dawn.safetensors").write_bytes(b"\x80\x04not safetensors")
    with pytest.raises(UserError, match="not a readable safetensors file"):
        load_heads(tmp_path, ["dawn"], CLASSES, 48, 16)


def test_the_width_may_come_from_the_file(tmp_path):
    save_file(debug_source("dawn"), tmp_path / "dawn.safetensors")
    (loaded,) = load_heads(tmp_path, ["dawn"], CLASSES, 48, 0)
    assert loaded["bottleneck.bias"].shape == (16,)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (CLASSES[:1] + CLASSES[2:3] + CLASSES[1:2] + CLASSES[3:], "class 1 is 'class_2' there"),
        (CLASSES[:5], "trained on 5 classes, the bank has 7"),
    ],
)
def test_another_class_order_is_refused(tmp_path, stored, message):
    path = tmp_path / "dawn.safetensors"
    save_file(debug_source("dawn"), path, {"classes": json.dumps(stored)})
    with pytest.raises(UserError, match=message):
        load_heads(tmp_path, ["dawn"], CLASSES, 48, 16)
    save_file(debug_source("dawn"), path, {"classes": json.dumps(CLASSES)})
    assert load_heads(tmp_path, ["dawn"], CLASSES, 48, 16)


def test_folding_gives_each_row_its_length():
    v, g = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[10.0], [1.0]])
    assert np.allclose(fold_weight_norm(v, g), [[6.0, 8.0], [0.0, 1.0]])


def test_stacking_keeps_the_order_of_the_sources():
    sources = [debug_source(domain) for domain in ("dusk", "dawn")]
    stacked = stack_sources(sources)
    assert stacked["bottlenecks.weight"].shape == (2, 48, 16)
    assert (stacked["bottlenecks.weight"][1] == sources[1]["bottleneck.weight"].T).all()
    assert (stacked["bottlenecks.norm.running_mean"][16:] == sources[1]["bn.running_mean"]).all()
    assert stacked["classifiers.weight"].shape == (2, 16, 7)


def test_names_of_both_frameworks():
    assert torch_name("model.bottlenecks.norm.gamma") == "model.bottlenecks.norm.weight"
    assert (
        torch_name("model.bottlenecks.norm.moving_variance") == "model.bottlenecks.norm.running_var"
    )
    assert torch_name("model.attention.query.weight") == "model.attention.query.weight"
