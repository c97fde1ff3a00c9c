"""The commands and examples of the documents, run as tests/document_commands.py says."""

import glob
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch

from benchmarks import cost_model
from ms_biaten.cli import main as ms_main
from ms_biaten.spec.orders import class_order
from ms_biaten.spec.source_training import initial_heads
from tests.conftest import ROOT
from tests.document_commands import EXAMPLES, RUN, Reduced
from tests.document_place import make_place
from tests.documents import DOCUMENTS, blocks, text_of
from tests.test_documents import make_says
from torch_ref.backbones import make_backbone
from torch_ref.cli import main as torch_main
from torch_ref.importers import save_backbone, save_source


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    torch.set_num_threads(1)
    return make_place(tmp_path_factory.mktemp("documents"))


def expanded(words):
    """Patterns as a shell would have replaced them."""
    return [name for word in words for name in (sorted(glob.glob(word)) or [word])]  # noqa: PTH207


def in_shell(lines):
    """As a user would type them, one after the other."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    script = "\n".join(["set -e", *lines])
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{lines}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def reduced(command, how: Reduced):
    for old, new in how.swap.items():
        assert old in command
        command = command.replace(old, new)
    return f"{command} {how.add}".strip()


def run(command):
    """In this process where that is the same thing."""
    words = expanded(shlex.split(command))
    if words[0] == "make":
        (line,) = (ln for ln in make_says(words[1]).splitlines() if "ms_biaten/train.py" in ln)
        words = ["ms-biaten", "train", *line.split("train.py")[1].split(), *words[2:]]
    if words[0] == "ms-biaten":
        assert ms_main(words[1:]) == 0, command
    elif words[:3] == ["python", "-m", "torch_ref"]:
        assert torch_main(words[3:]) == 0, command
    elif words[:3] == ["python", "-m", "benchmarks.cost_model"]:
        cost_model.main()
    else:
        in_shell([command])


def tell(story):
    """One after the other: a run is trained before it is reported."""
    for command, how in RUN[story].items():
        run(reduced(command, how))


@pytest.fixture(scope="module")
def own(place):
    """The folder after `own`, whose run others go on with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        tell("own")
    return place


@pytest.mark.parametrize("story", ["debug", "emoji", "records", "office", "measured"])
def test_the_commands_run(story, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    tell(story)
    said = capsys.readouterr().out
    if story == "debug":  # the README shows what `params` prints
        (shown,) = (
            b.text for b in blocks(ROOT / "README.md") if "with frozen classifiers" in b.text
        )
        assert shown in said
    if story == "measured":  # and docs/scaling.md what the cost model says
        rows = [line for line in said.splitlines() if line.startswith("|")]
        assert rows and all(row in text_of(ROOT / "docs/scaling.md") for row in rows)
    if story == "records":
        for name in ("emoji", "office_caltech"):
            file = f"benchmarks/results/{name}.jsonl"
            assert (place / file).read_bytes() == (ROOT / file).read_bytes()


def test_own_images_become_a_served_model(own):
    images = len(list((own / "new_pictures").iterdir()))
    assert len((own / "predictions.csv").read_text().splitlines()) == images + 1
    assert (own / "served/model.mindir").is_file()


def test_the_commands_for_ascend_run_on_a_cpu(own, monkeypatch):
    monkeypatch.chdir(own)
    tell("ascend")


def test_every_story_is_told():
    told = {"own", "ascend", "debug", "emoji", "records", "office", "measured", "workers"}
    assert set(RUN) == told


@pytest.mark.skipif(not (Path(sys.prefix) / "bin/activate").is_file(), reason="not in a venv")
def test_several_workers_run(place, monkeypatch):
    monkeypatch.chdir(place)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    in_shell([reduced(c, how).replace("PORT", port) for c, how in RUN["workers"].items()])
    assert (place / "runs/shared/predictions.csv").is_file()
    shutil.rmtree(place / "runs/shared")


# -- examples in Python ---------------------------------------------------------------------------


def examples_of(name):
    return [block.text for block in blocks(ROOT / name) if block.language == "python"]


def executed(text, names, page):
    exec(compile(text, page, "exec"), names)
    return names


def test_every_example_is_known():
    found = {d.relative_to(ROOT).as_posix(): len(examples_of(d)) for d in DOCUMENTS}
    assert {page: count for page, count in found.items() if count} == EXAMPLES


def test_the_library_page_runs_as_it_is_written(folder):
    names: dict = {}
    for text in examples_of("docs/api.md"):
        executed(text, names, "docs/api.md")
    assert (folder / "runs/library/predictions.csv").is_file()


def test_the_examples_of_banks(folder):
    made, imported = examples_of("docs/bank.md")
    domains, classes = ("amazon", "caltech", "webcam"), class_order("office_caltech")
    features = np.zeros((4, 3, 8), np.float32)
    names = {"domains": domains, "classes": classes, "samples": tuple("abcd")}
    executed(made, {**names, "features": features}, "docs/bank.md")
    assert (folder / "banks/dslr/manifest.json").is_file()

    small = "test_resnet"  # timm's smallest; a Swin-B is 350 MB
    backbone = make_backbone(small)
    heads = initial_heads(backbone.num_features, 8, 3, 0)
    save_source("domainnet_src", "clipart", small, backbone, heads)
    executed(imported.replace("swin_base_patch4_window7_224", small), {}, "docs/bank.md")
    assert (folder / "sources/clipart.backbone.safetensors").is_file()


def test_the_example_of_backbones(folder):
    (text,) = examples_of("docs/backbones.md")
    (folder / "sources").mkdir()
    file = folder / "sources/amazon.backbone.safetensors"
    save_backbone(file, "resnet50", make_backbone("resnet50"))
    images = ms.Tensor(np.zeros((1, 3, 64, 64), np.float32))
    names = executed(text, {"images": images}, "docs/backbones.md")
    assert names["features"].shape == (1, names["width_of"](names["backbone"]))


IMAGES = "import numpy as np\nimages = np.zeros((2, 32, 32, 3), np.uint8)\n"


def test_the_examples_of_serving(own, monkeypatch):
    """Each in a process of its own, as a service would."""
    monkeypatch.chdir(own)
    (plain,) = examples_of("docs/serving.md")
    graph, lite = examples_of("docs/ascend.md")
    shown = "\nprint(probabilities.shape)\n"
    for text in (plain, graph.replace("Ascend", "CPU")):
        done = subprocess.run(
            [sys.executable, "-c", IMAGES + text + shown], capture_output=True, text=True
        )
        assert done.stdout.strip() == "(2, 3)", done.stderr
    compile(lite, "docs/ascend.md", "exec")  # MindSpore Lite is not on the package index
