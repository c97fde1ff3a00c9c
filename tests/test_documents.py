"""Every command of the documents is run, here or elsewhere, or is told why it cannot be."""

import ast
import glob
import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import cost_model
from ms_biaten.cli import main as ms_main
from ms_biaten.spec.commands import build_parser
from tests.conftest import ROOT
from tests.document_commands import ELSEWHERE, NOT_RUN, RUN, Reduced
from tests.document_place import make_place
from tests.documents import (
    COMMANDS,
    DOCUMENTS,
    PLAIN,
    blocks,
    documented,
    inline_commands,
    text_of,
)
from torch_ref.cli import main as torch_main

RUN_HERE = {command: reduced for story in RUN.values() for command, reduced in story.items()}


# -- every command is in one table ----------------------------------------------------------------


def test_every_block_says_what_it_is():
    known = (COMMANDS, *PLAIN, "python")
    for document in DOCUMENTS:
        for block in blocks(document):
            assert block.language in known, f"{block.document}: ```{block.language}"


def test_every_command_is_run_or_says_why_not():
    tables = (RUN_HERE, ELSEWHERE, NOT_RUN)
    for command, places in documented().items():
        count = sum(command in table for table in tables)
        assert count == 1, (
            f"{', '.join(sorted(places))}: `{command}` is in {count} tables of "
            "tests/document_commands.py, expected 1 (output of a command stands in a ```text block)"
        )


def test_the_tables_hold_nothing_else():
    known = documented()
    gone = [c for table in (RUN_HERE, ELSEWHERE, NOT_RUN) for c in table if c not in known]
    assert not gone, f"no document has these any more: {gone}"


@pytest.mark.parametrize("command", ELSEWHERE)
def test_the_other_test_is_there(command):
    place, snippet = ELSEWHERE[command]
    file, _, name = place.partition("::")
    source = (ROOT / file).read_text()
    (found,) = (
        part
        for part in ast.parse(source).body
        if isinstance(part, ast.FunctionDef) and part.name == name
    )
    assert snippet in ast.get_source_segment(source, found)


# -- what is not run parses -----------------------------------------------------------------------


def make_says(*target):
    """What `make` would run, the environment taken as installed."""
    done = subprocess.run(
        ["make", "-n", "-o", ".venv/.base", "-o", ".venv/.dev", *target],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_syntax(command, monkeypatch):
    words = shlex.split(command)
    if words[0] == "make":
        assert make_says(*words[1:])
    elif words[:2] == ["pip", "install"]:
        extras = re.findall(r"\[([\w,]+)\]", command)
        known = (ROOT / "setup.py").read_text()
        assert all(f'"{extra}": [' in known for part in extras for extra in part.split(","))
        assert "-c" not in words or (ROOT / "constraints.txt").is_file()
    elif words[0] == "ms-biaten" or words[:3] == ["python", "-m", "torch_ref"]:
        arguments = words[1:] if words[0] == "ms-biaten" else words[3:]
        with pytest.raises(SystemExit) as end:  # `--help` ends it, unless a word is refused before
            build_parser("x").parse_args([*arguments, "--help"])
        assert end.value.code == 0
    elif words[:2] == ["python", "-m"] and words[2].split(".")[0] in ("benchmarks", "parity_tests"):
        assert importlib.util.find_spec(words[2])
    elif words[0] == "python" and words[1].endswith(".py"):
        assert (ROOT / words[1]).is_file()
    else:
        done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", NOT_RUN)
def test_what_is_not_run_parses(command, monkeypatch):
    check_syntax(command, monkeypatch)


@pytest.mark.parametrize("command", inline_commands())
def test_commands_within_sentences_parse(command, monkeypatch):
    check_syntax(command, monkeypatch)


def test_scripts_are_the_commands_that_the_tables_take_them_for():
    for document in DOCUMENTS:
        for package, name in set(
            re.findall(r"(ms_biaten|torch_ref)/(\w+)\.py ", text_of(document))
        ):
            script = (ROOT / package / f"{name}.py").read_text()
            assert f'["{name}", *' in script


# -- what is run ----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("story", [name for name in RUN if name not in ("workers", "ascend")])
def test_the_commands_run(story, place, monkeypatch, capsys):
    """One after the other: a run is trained before it is reported."""
    monkeypatch.chdir(place)
    for command, how in RUN[story].items():
        run(reduced(command, how))
    said = capsys.readouterr().out
    if story == "debug":  # the README shows what `params` prints
        (shown,) = (
            b.text for b in blocks(ROOT / "README.md") if "with frozen classifiers" in b.text
        )
        assert shown in said
    if story == "records":
        for name in ("emoji", "office_caltech"):
            file = f"benchmarks/results/{name}.jsonl"
            assert (place / file).read_bytes() == (ROOT / file).read_bytes()


def test_the_commands_for_ascend_run_on_a_cpu(place, monkeypatch):
    """After `own`, whose run they go on with."""
    monkeypatch.chdir(place)
    for command, how in RUN["ascend"].items():
        run(reduced(command, how))


@pytest.mark.skipif(not (Path(sys.prefix) / "bin/activate").is_file(), reason="not in a venv")
def test_several_workers_run(place, monkeypatch):
    monkeypatch.chdir(place)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    in_shell([reduced(c, how).replace("PORT", port) for c, how in RUN["workers"].items()])
    assert (place / "runs/shared/predictions.csv").is_file()
    shutil.rmtree(place / "runs/shared")


# -- examples -------------------------------------------------------------------------------------


def python_blocks(name):
    return [block.text for block in blocks(ROOT / name) if block.language == "python"]


def test_the_library_page_runs_as_it_is_written(folder):
    names: dict = {}
    for text in python_blocks("docs/api.md"):
        exec(compile(text, "docs/api.md", "exec"), names)
    assert (folder / "runs/library/predictions.csv").is_file()


def test_the_reference_is_current():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert text_of(ROOT / "docs/reference.md") == reference.page(), (
        "docs/reference.md is not what the source says; run: python docs/reference.py"
    )
