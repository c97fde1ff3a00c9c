"""What the README says is what the code does."""

import dataclasses
import re

import pytest

from ms_biaten.spec.commands import build_parser
from ms_biaten.spec.equations import EQUATIONS
from ms_biaten.spec.loading import load_config
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("number", EQUATIONS)
def test_every_equation_has_its_row(number):
    module, function, what = EQUATIONS[number]
    assert f"| ({number}) | `{module}.{function}` | {what} |" in README


def test_the_profile_table_is_the_profiles():
    paper, official = (
        dataclasses.asdict(load_config("debug", profile=name).profile)
        for name in ("paper", "official")
    )
    for field in paper.keys() - {"name"}:
        assert f"| `{field}` | {paper[field]} | {official[field]} |" in README


def test_links_lead_somewhere():
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert (document.parent / link).exists(), (document.name, link)


def test_commands_parse():
    """Every ms-biaten line of the documents is one that the command line takes."""
    found = []
    for document in DOCUMENTS:
        text = document.read_text().replace("\\\n", " ")
        found += re.findall(r"^ms-biaten ([^#\n]+)", text, flags=re.MULTILINE)
    assert len(found) >= 6
    for line in found:
        build_parser("ms-biaten").parse_args(line.split())


def test_settings_exist():
    """Every --set of the documents names a setting that there is."""
    for document in DOCUMENTS:
        for setting in re.findall(r"--set ([a-z_]+\.[a-z_]+)=", document.read_text()):
            section, name = setting.split(".")
            assert hasattr(getattr(load_config("debug"), section), name), setting
