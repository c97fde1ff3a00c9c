"""Every command of the documents is run by a test, or says why it cannot be; all of them parse.

tests/test_document_runs.py runs them.
"""

import ast
import importlib.util
import re
import shlex
import subprocess

import pytest

from ms_biaten.spec.commands import build_parser
from tests.conftest import ROOT
from tests.document_commands import ELSEWHERE, NOT_RUN, RUN
from tests.documents import (
    COMMANDS,
    DOCUMENTS,
    PLAIN,
    blocks,
    documented,
    inline_commands,
    text_of,
)

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


# -- the reference --------------------------------------------------------------------------------


def test_the_reference_is_current():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert text_of(ROOT / "docs/reference.md") == reference.page(), (
        "docs/reference.md is not what the source says; run: python docs/reference.py"
    )
