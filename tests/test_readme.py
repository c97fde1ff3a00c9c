"""What the README says is what the code does, and README_CN.md says the same."""

import dataclasses
import re
from collections import Counter

import pytest

from ms_biaten.spec.equations import EQUATIONS
from ms_biaten.spec.loading import load_config
from tests.conftest import ROOT
from tests.documents import DOCUMENTS, blocks, headings, links, prose, tables, text_of

ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README_CN.md"
README = text_of(ENGLISH)
TO_EACH_OTHER = {"README.md", "README_CN.md"}


@pytest.mark.parametrize("number", EQUATIONS)
def test_every_equation_has_its_row(number):
    module, function, what = EQUATIONS[number]
    assert f"| ({number}) | `{module}.{function}` | {what} |" in README
    assert f"| ({number}) | `{module}.{function}` |" in text_of(CHINESE)


@pytest.mark.parametrize("page", [ENGLISH, CHINESE], ids=lambda page: page.name)
def test_the_profile_table_is_the_profiles(page):
    paper, official = (
        dataclasses.asdict(load_config("debug", profile=name).profile)
        for name in ("paper", "official")
    )
    for field in paper.keys() - {"name"}:
        assert f"| `{field}` | {paper[field]} | {official[field]} |" in text_of(page)


def test_links_lead_somewhere():
    for document in DOCUMENTS:
        for link in links(document):
            assert (document.parent / link).exists(), (document.name, link)


def test_settings_exist():
    """Every --set of the documents names a setting that there is."""
    for document in DOCUMENTS:
        for setting in re.findall(r"--set ([a-z_]+\.[a-z_]+)=", text_of(document)):
            section, name = setting.split(".")
            assert hasattr(getattr(load_config("debug"), section), name), setting


# -- the same in Chinese ------------------------------------------------------------------------


def told(one, other, found):
    """What one page has and the other lacks, as a sentence."""
    lines = [f"  {count} x {what}" for what, count in found.items()]
    return f"{one.name} has what {other.name} lacks; translate it or take it out:\n" + "\n".join(
        lines
    )


def check_same(parts_of):
    both = {page: Counter(parts_of(page)) for page in (ENGLISH, CHINESE)}
    for one, other in ((ENGLISH, CHINESE), (CHINESE, ENGLISH)):
        missing = both[one] - both[other]
        assert not missing, told(one, other, missing)


def test_both_have_the_same_commands_and_output():
    def lines(page):
        return [ln for b in blocks(page) for ln in (f"```{b.language}", *b.text.splitlines())]

    check_same(lines)
    assert lines(ENGLISH) == lines(CHINESE), "README_CN.md has the lines of its blocks reordered"


def test_both_have_the_same_links():
    check_same(lambda page: [link for link in links(page) if link not in TO_EACH_OTHER])
    assert "README_CN.md" in links(ENGLISH) and "README.md" in links(CHINESE)


def test_both_have_the_same_code_in_their_sentences():
    check_same(lambda page: re.findall(r"`[^`\n]+`", prose(page)))


def test_both_have_the_same_numbers():
    plain = r"(?<![\w.])\d+(?:\.\d+)*(?!\w)"
    check_same(lambda page: re.findall(plain, re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose(page))))


def test_both_have_the_same_sections_and_tables():
    levels = [[len(h.split()[0]) for h in headings(page)] for page in (ENGLISH, CHINESE)]
    assert levels[0] == levels[1], (
        f"README.md has the headings {headings(ENGLISH)},\nREADME_CN.md {headings(CHINESE)}"
    )
    pairs = zip(tables(ENGLISH), tables(CHINESE), strict=True)
    for number, (english, chinese) in enumerate(pairs, 1):
        counts = [(len(t), {line.count(" | ") for line in t}) for t in (english, chinese)]
        assert counts[0] == counts[1], (
            f"table {number} ({english[0]}) has {len(english)} lines in README.md and "
            f"{len(chinese)} in README_CN.md"
        )
