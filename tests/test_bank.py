"""The feature bank on disk, and what is wrong with broken ones."""

import dataclasses
import json

import numpy as np
import pytest

from ms_biaten.spec.bank import check_bank, load_bank, save_bank
from ms_biaten.spec.debug import debug_bank
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.loading import load_config


@pytest.fixture
def saved(tmp_path):
    bank = debug_bank("night")
    save_bank(tmp_path / "bank", bank)
    return tmp_path / "bank"


def test_round_trip(saved):
    bank, loaded = debug_bank("night"), load_bank(saved)
    assert (loaded.features == bank.features).all()
    assert (loaded.labels == bank.labels).all()
    assert loaded.samples == bank.samples
    assert (loaded.target, loaded.domains, loaded.classes) == (
        bank.target,
        bank.domains,
        bank.classes,
    )
    assert isinstance(loaded.features, np.memmap)


def test_no_labels_stay_no_labels(tmp_path):
    save_bank(tmp_path, dataclasses.replace(debug_bank("night"), labels=None))
    assert load_bank(tmp_path).labels is None


def test_float16_is_computed_in_float32(tmp_path):
    bank = debug_bank("night")
    save_bank(tmp_path, dataclasses.replace(bank, features=bank.features.astype(np.float16)))
    loaded = load_bank(tmp_path)
    assert loaded.features.dtype == np.float16
    assert loaded.rows(np.array([3, 1])).dtype == np.float32
    assert next(loaded.chunks(10)).dtype == np.float32


def test_rows_and_chunks_agree():
    bank = debug_bank("dawn")
    assert (np.concatenate(list(bank.chunks(37))) == bank.features).all()
    assert (bank.rows(np.array([5, 2])) == bank.features[[5, 2]]).all()


def edit(saved, **changes):
    path = saved / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest.update(changes)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not the manifest of a feature bank"),
        ({"version": 99}, "bank version 99"),
        ({"domains": "dawn"}, "'domains' is missing or not a list"),
        ({"classes": [1, 2]}, "'classes' is missing or not a list of texts"),
        ({"samples": ["a"]}, "the manifest lists 1 samples"),
        ({"views": ["center"]}, "'views' must give each of center, drawn its SHA-256"),
        ({"views": {"left": None}}, "'views' must give each of center, drawn its SHA-256"),
        ({"labels": [0.5]}, "'labels' must be null or a list of whole numbers"),
    ],
)
def test_a_broken_manifest_is_named(saved, change, message):
    edit(saved, **change)
    with pytest.raises(UserError) as caught:
        load_bank(saved)
    assert message in str(caught.value)
    assert str(saved) in str(caught.value)


def test_broken_files_are_named(saved, tmp_path):
    with pytest.raises(UserError, match=r"no feature bank at .*manifest.json is missing"):
        load_bank(tmp_path / "nowhere")
    payload = (saved / "center.npy").read_bytes()
    (saved / "center.npy").write_bytes(payload[: len(payload) // 2])
    with pytest.raises(UserError, match=r"center.npy: not a readable array"):
        load_bank(saved)
    (saved / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="not readable as JSON"):
        load_bank(saved)


def test_a_flipped_byte_is_seen(saved):
    payload = bytearray((saved / "center.npy").read_bytes())
    payload[-100] ^= 1
    (saved / "center.npy").write_bytes(payload)
    with pytest.raises(UserError, match=r"center.npy: its content is not what the manifest says"):
        load_bank(saved)
    edit(saved, views={"center": None})  # a bank written by hand may leave the checksum out
    assert load_bank(saved)


def test_views_are_told_apart(tmp_path):
    drawn = debug_bank("night", "drawn")
    save_bank(tmp_path, debug_bank("night"), {"drawn": drawn.features})
    assert (load_bank(tmp_path, "drawn").features == drawn.features).all()
    assert (load_bank(tmp_path).features != drawn.features).any()


def test_a_view_that_is_not_there_is_named(saved):
    with pytest.raises(UserError, match="has no 'drawn' view, only center; extract with --views"):
        load_bank(saved, "drawn")


def test_a_pickled_array_is_not_opened(saved):
    np.save(saved / "center.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="not a readable array"):
        load_bank(saved)


def broken(**changes):
    return dataclasses.replace(debug_bank("night"), **changes)


def spoiled(value):
    features = debug_bank("night").features.copy()
    features[17, 1, 3] = value
    return broken(features=features)


@pytest.mark.parametrize(
    ("bank", "overrides", "message"),
    [
        (broken(domains=("dawn",)), [], "1 source; weighing sources needs at least 2"),
        (broken(target="dawn"), [], "made for target 'dawn', not 'night'"),
        (broken(), ["model.raw_width=64"], "features are 48 wide, but model.raw_width is 64"),
        (broken(classes=("a", "b")), [], "2 classes, but debug has 7"),
        (broken(), ["train.batch_size=1001"], "1001 is larger than the target set (1000 samples)"),
        (spoiled(np.nan), [], "NaN or Inf in the features of sample 17 ('night/0017')"),
        (spoiled(np.inf), [], "NaN or Inf in the features of sample 17"),
        (broken(labels=np.full(1000, 7)), [], "label 7 of sample 0 ('night/0000') is outside 0..6"),
        (broken(labels=np.zeros(3, int)), [], "expected 1000 whole-number labels"),
    ],
)
def test_a_bank_that_does_not_fit_is_refused(bank, overrides, message):
    with pytest.raises(UserError) as caught:
        check_bank(bank, load_config("debug", overrides=overrides), 7, "mine")
    assert message in str(caught.value)
