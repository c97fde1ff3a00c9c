"""The tables of a small record of made-up numbers, to the last character.

python -m tests.test_golden      writes tests/golden/ anew, for a look at the difference
"""

import pytest

from benchmarks.recorded import recorded_tables
from ms_biaten.spec.experiments.catalogue import EXPERIMENTS
from ms_biaten.spec.experiments.layout import latex_text, markdown_text
from tests.conftest import ROOT

GOLDEN = ROOT / "tests/golden"
TWO = {"benchmark_name": "office_caltech", "targets": ["amazon", "dslr"], "profiles": ["paper"]}
GRIDS = {
    "controls": {**TWO, "seeds": 2},
    "table1": {**TWO, "seeds": 2},
    "table2": {"benchmark_name": "domainnet", "targets": ["clipart"], "seeds": 1},
    "table3": {**TWO, "seeds": 2},
    "table4": {"benchmark_name": "domainnet", "seeds": 1},
    "end_to_end": {**TWO, "targets": ["amazon"], "seeds": 1},
    "fig7": {**TWO, "targets": ["amazon"]},
    "convergence": {**TWO, "targets": ["dslr"], "seeds": 2},
}


def texts(name):
    tables = recorded_tables(name, GOLDEN / "record.jsonl", **GRIDS[name])
    return {f"{name}.md": markdown_text(tables), f"{name}.tex": latex_text(tables)}


def test_every_experiment_has_its_golden_table():
    assert list(GRIDS) == list(EXPERIMENTS)


@pytest.mark.parametrize("name", GRIDS)
def test_tables(name):
    for file, text in texts(name).items():
        assert text == (GOLDEN / file).read_text(encoding="utf-8"), file


if __name__ == "__main__":
    for name in GRIDS:
        for file, text in texts(name).items():
            (GOLDEN / file).write_text(text, encoding="utf-8")
