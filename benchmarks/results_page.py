"""docs/results.md from the committed records: its tables, and every figure in its sentences.

    python -m benchmarks.results_page            writes the page; a test holds it to this

`results_page.md` beside this file has the sentences, with a `$name` for each figure. It holds no
number of its own: a test looks.
"""

from string import Template

from benchmarks import results_facts
from benchmarks.measuring import ROOT

TEMPLATE = ROOT / "benchmarks/results_page.md"
PAGE = ROOT / "docs/results.md"


def page():
    text = TEMPLATE.read_text(encoding="utf-8")
    return Template(text).substitute(results_facts.facts())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
