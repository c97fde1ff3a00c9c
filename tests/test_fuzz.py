"""Files from strangers: whatever they hold, a clear line, no code run, nothing outside the root."""

import json
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save_file

from benchmarks import tables
from benchmarks.fuzz import pictures, trees
from benchmarks.fuzz.loaders import LOADERS
from ms_biaten.cli import main
from ms_biaten.spec import reading
from ms_biaten.spec.bank import load_bank, read_manifest, save_bank
from ms_biaten.spec.cells import as_cell, from_cell
from ms_biaten.spec.console import say
from ms_biaten.spec.debug import debug_bank
from ms_biaten.spec.described import are_shapes
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.history import check_lines
from ms_biaten.spec.images import BadImageError, read_image
from ms_biaten.spec.lists import inside, read_list
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.weights import load_heads
from tests.conftest import ROOT
from torch_ref.checkpoints import read_checkpoint


def refusal(action, *arguments):
    """The one line that it is refused with."""
    with pytest.raises(UserError) as caught:
        action(*arguments)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_every_loader_withstands_damaged_files(tmp_path):
    """The short form of `python -m benchmarks.fuzz`: all loaders in one process."""
    command = [sys.executable, "-m", "benchmarks.fuzz.worker", ",".join(LOADERS)]
    command += ["1", "0", "25", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    found = [verdict for verdict in verdicts if "ready" not in verdict]
    assert len(found) == 25 * len(LOADERS), done.stderr
    bad = [v for v in found if v["verdict"] not in ("accepted", "refused")]
    assert not bad
    assert {v["verdict"] for v in found} == {"accepted", "refused"}


def test_the_page_has_what_was_found():
    assert tables.fuzz() in (ROOT / "docs/security.md").read_text()
    for entry in tables.record("fuzz")["loaders"].values():
        assert entry["cases"] >= 1000
        assert entry["accepted"] + entry["refused"] == entry["cases"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
LINE = st.dictionaries(
    st.sampled_from(["kind", "epoch", "im", "snd", "beta", "alpha", "rule"]), JSON
)
SHARED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SHARED
@given(
    key=st.sampled_from(["domains", "classes", "samples", "labels", "views", "models"]), value=JSON
)
def test_any_entry_of_a_manifest_is_read_or_refused(key, value, bank):
    manifest = json.loads((bank / "whole.json").read_text())
    (bank / "manifest.json").write_text(json.dumps({**manifest, key: value}))
    try:
        load_bank(bank)
    except UserError as error:
        assert str(error).isprintable()
        assert str(bank) in str(error)


@SHARED
@given(lines=st.lists(LINE | JSON, max_size=3))
def test_any_line_of_results_is_read_or_refused(lines, tmp_path):
    try:
        check_lines(lines, tmp_path)
    except UserError as error:
        assert str(error).isprintable()


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bank") / "bank"
    save_bank(folder, debug_bank("night"))
    (folder / "whole.json").write_text((folder / "manifest.json").read_text())
    return folder


# -- plain data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", trees.HOSTILE_YAML)
def test_hostile_yaml_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_bytes(text)
    refusal(load_config, str(tmp_path / "c.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 50_000, "9" * 5000, "\ufeff{}", "{", '"\udcff"', ""]
)
def test_hostile_json_is_refused(text, tmp_path):
    (tmp_path / "a.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "a.json" in refusal(reading.read_json, tmp_path / "a.json", "write it again")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "list.txt").open("wb") as file:
        file.truncate(reading.MOST_TEXT + 1)  # sparse: it takes no disk
    line = refusal(read_list, tmp_path / "list.txt", tmp_path)
    assert "list.txt: larger than" in line


def test_a_message_is_one_plain_line(capsys, tmp_path):
    key = "a\n\x1b[2J\u202eb"
    (tmp_path / "c.yaml").write_text(json.dumps({key: 1}))
    assert main(["train", "--config", str(tmp_path / "c.yaml"), "--target", "night"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert error.strip().isprintable()
    assert r"a\n\x1b[2J\u202eb" in error
    assert len(str(UserError("x" * 10**6))) < 2000
    say("left out \x1b[2Jx.png\nand \udcff.png")
    assert capsys.readouterr().out == "left out \\x1b[2Jx.png\nand \\udcff.png\n"


# -- arrays and weights -------------------------------------------------------------------------


def test_features_column_by_column_are_refused(bank):
    """Their rows would be read as other numbers."""
    manifest = json.loads((bank / "whole.json").read_text())
    manifest["views"] = {"center": None}
    (bank / "manifest.json").write_text(json.dumps(manifest))
    whole = np.load(bank / "center.npy")
    np.save(bank / "center.npy", np.asfortranarray(whole))
    assert "column by column" in refusal(load_bank, bank)
    np.save(bank / "center.npy", whole)


def test_weights_that_overflow_single_precision_are_refused(tmp_path):
    from ms_biaten.spec.debug import debug_source

    source = {**debug_source("dawn"), "fc.bias": np.full(7, 1e300)}
    save_file(source, tmp_path / "dawn.safetensors")
    line = refusal(load_heads, tmp_path, ["dawn"], "abcdefg", 48, 0)
    assert "fc.bias holds NaN or Inf, or no numbers of single precision" in line


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


def test_no_pickle_is_run(tmp_path):
    canary = tmp_path / "executed"
    for name, save in (("a.pth", torch.save), ("b.pth", dump), ("c.pth", legacy)):
        save({"w": Touch(canary)}, tmp_path / name)
        assert name in refusal(read_checkpoint, tmp_path / name)
    holder = np.empty(1, object)
    holder[0] = Touch(canary)
    np.save(tmp_path / "a.npy", holder)
    assert "a.npy" in refusal(reading.map_array, tmp_path / "a.npy", "write it again")
    assert not canary.exists()


def dump(tree, path):
    path.write_bytes(pickle.dumps(tree))


def legacy(tree, path):
    torch.save(tree, path, _use_new_zipfile_serialization=False)


def test_a_packed_checkpoint_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pth", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * (20 << 20))
    assert "decompression bomb" in refusal(read_checkpoint, tmp_path / "a.pth")


def test_a_tensor_spread_from_one_number_is_refused(tmp_path):
    torch.save({"w": torch.zeros(1).half().expand(10**12)}, tmp_path / "a.pth")
    assert "expected a dict of tensors" in refusal(read_checkpoint, tmp_path / "a.pth")


@pytest.mark.parametrize("zipped", [True, False])
def test_tuples_in_tuples_are_not_hashed_for_hours(zipped, tmp_path):
    knot = (1,)
    for _ in range(40):
        knot = (knot, knot)
    torch.save([knot], tmp_path / "a.pth", _use_new_zipfile_serialization=zipped)
    assert "would take hours" in refusal(read_checkpoint, tmp_path / "a.pth")
    weights = {f"w{i}": torch.zeros(2, 3) for i in range(200)}
    torch.save(weights, tmp_path / "b.pth", _use_new_zipfile_serialization=zipped)
    assert len(read_checkpoint(tmp_path / "b.pth")) == 200


@pytest.mark.parametrize(
    "options",
    [
        {"checkpoint_path": "evil.pth"},
        {"pretrained_cfg": {"url": "http://leak.invalid"}},
        {"weights": "evil.pth"},
        {"download": True},
        {"global_pool": "../evil"},
        {"depths": [[1]]},
        {"embed_dim": 10**9},
        [],
    ],
)
def test_a_bank_cannot_choose_files_of_a_backbone(options):
    assert not are_shapes(options)
    assert are_shapes({"image_size": 32, "layers": [1, 2], "global_pool": "max", "mlp_ratio": 4.0})


# -- paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../a.png", "x/../../a.png", "/etc/passwd", "/"])
def test_names_stay_below_their_root(name, tmp_path):
    assert "leads out of" in refusal(inside, name, tmp_path, "list.txt, line 1")


def test_absolute_names_and_links_below_the_root_are_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    Image.new("RGB", (2, 2)).save(tmp_path / "elsewhere/a.png")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "list.txt").write_text(f"link/a.png\n{tmp_path}/root/link/a.png\n")
    assert len(read_list(tmp_path / "list.txt", tmp_path / "root")) == 2


@pytest.mark.parametrize(
    "line", ["a.png \u00b2", "a.png " + "9" * 5000, "a.png --1", "x" * 300, "\x00"]
)
def test_strange_labels_and_names_are_refused(line, tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    (tmp_path / "list.txt").write_text(line)
    assert "list.txt, line 1" in refusal(read_list, tmp_path / "list.txt", tmp_path, ["a", "b"])


@pytest.mark.parametrize("domain", ["../x", "a/b", "..", "", "a\x00", "x" * 300, "\ud800"])
def test_a_source_cannot_name_another_folder(domain, bank):
    manifest = json.loads((bank / "whole.json").read_text())
    (bank / "manifest.json").write_text(
        json.dumps({**manifest, "domains": [domain, "noon", "dusk"]})
    )
    assert "'domains'" in refusal(read_manifest, bank)


def test_a_target_is_a_plain_name():
    assert "plain name" in refusal(lambda: load_config("own", target=".."))


# -- images and tables --------------------------------------------------------------------------


@pytest.mark.parametrize("make", pictures.HOSTILE)
def test_hostile_images_are_refused_or_small(make, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(make())
    try:
        width, height = read_image(path).size
    except BadImageError as error:
        assert "a.png" in str(error)
    else:
        assert width * height <= 64


def test_a_file_is_what_it_holds_and_not_what_it_is_called(tmp_path):
    """PostScript named .png would start another program."""
    (tmp_path / "a.png").write_bytes(pictures.postscript())
    with pytest.raises(BadImageError, match="cannot identify image file"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-a", "@x", "'a", "'=1", "\tx", "a=1", "", "night/1.png"]
)
def test_names_come_back_from_a_table(name):
    assert from_cell(as_cell(name)) == name
    assert not as_cell(name).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert as_cell("night/1.png") == "night/1.png"
