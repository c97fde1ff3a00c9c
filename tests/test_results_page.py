"""docs/results.md says what the committed records say: every figure, and the words around them."""

import json
import re
import statistics

import pytest

from benchmarks import results_facts, results_page
from benchmarks.results_facts import Means

# Names that happen to have a digit, and the paper's own numbering.
NAMES = ("Table 3", "Table 4", "Eq. (18)", "Fig. 7", "EfficientNet-Lite0", "ResNet-50")
# "one" is also a pronoun: sentences with it are read by people.
COUNTED = "two|three|four|five|six|seven|eight|nine|ten|twelve|half|third|quarter|tenth|dozen"


def test_the_page_is_what_its_command_writes():
    assert results_page.PAGE.read_text(encoding="utf-8") == results_page.page(), (
        "docs/results.md is not what the records say; run: python -m benchmarks.results_page"
    )


def sentences():
    """The template without commands, code, links' addresses and names."""
    text = results_page.TEMPLATE.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    for name in NAMES:
        assert name in text
        text = text.replace(name, "")
    return text


def test_the_sentences_hold_no_number_of_their_own():
    found = re.findall(rf"\S*\d\S*|\b(?:{COUNTED})s?\b", sentences(), flags=re.IGNORECASE)
    assert not found, f"write these as $names of results_facts.py: {found}"


def test_every_figure_is_used():
    assert set(re.findall(r"\$(\w+)", sentences())) == set(results_facts.facts())


@pytest.mark.parametrize("name", results_facts.RECORDS)
def test_another_record_makes_another_page(name, tmp_path, monkeypatch):
    """One accuracy of one run, moved by a point."""
    before = results_page.page()
    lines = [json.loads(line) for line in results_facts.RECORDS[name].read_text().splitlines()]
    line = next(ln for ln in lines if ln["method"] == "aten" and ln["profile"] == "paper")
    line["accuracy"] += 1.0
    (tmp_path / "record.jsonl").write_text("".join(json.dumps(ln) + "\n" for ln in lines))
    monkeypatch.setitem(results_facts.RECORDS, name, tmp_path / "record.jsonl")
    changed = [
        (old, new)
        for old, new in zip(before.splitlines(), results_page.page().splitlines(), strict=True)
        if old != new
    ]
    assert any(old.startswith("| ATEN |") for old, _ in changed)


# -- words that a record can prove wrong --------------------------------------------------------


def averages(means, title):
    return {target: statistics.mean(v) for target, v in means.by_target(title).items()}


def test_what_is_said_of_the_controls():
    controls = Means("controls")
    uniform, own = averages(controls, "uniform weights"), averages(controls, "Bi-ATEN")
    assert own["twemoji"] < uniform["twemoji"]
    trained = ("uniform weights", "ATEN", "Bi-ATEN")
    still = averages(controls, "BN re-estimated")["monotone"]
    assert all(averages(controls, title)["monotone"] < still for title in trained)


def test_what_is_said_of_the_other_methods():
    others = Means("others")
    limit = float(results_facts.facts()["sampling_error"])
    assert all(others.gain(title, "uniform weights") < limit for title in others.rows)
    assert abs(others.gain("CAiDA + ATEN", "CAiDA, uniform")) < 0.3
    for run in others.results.runs(others.rows["DATE"], "paper", "twemoji"):
        sources = [name for name in run["baselines"] if name.startswith("source ")]
        by_weight = sorted(zip(run["beta"], sources, strict=True))[-2:]
        assert {name for _, name in by_weight} == {"source contrast", "source monotone"}
        worst = sorted(sources, key=run["baselines"].get)[:2]
        assert set(worst) == {"source contrast", "source monotone"}


def test_what_is_said_of_the_ablations():
    parts = Means("ablations")
    gains = {title: parts.gain(title, "Bi-ATEN") for title in parts.rows}
    assert min(gains, key=gains.get) == "w/o L_IM"
    assert gains["w/o L_IM"] < -1
    assert abs(gains["w/o alternate training"]) < 0.3
    assert abs(gains["w/o intra-domain weights (ATEN)"]) < 0.3


def test_what_is_said_of_office_caltech():
    office = Means("office")
    for title in ("ATEN", "Bi-ATEN"):
        assert not office.wins(title, "uniform weights")
