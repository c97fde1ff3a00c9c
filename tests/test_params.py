"""Parameter counts of the paper's Table 2, counted on real models in both frameworks."""

import pytest

from ms_biaten.cli import main as ms_main
from torch_ref.cli import main as torch_main

MAINS = {"mindspore": ms_main, "torch": torch_main}


@pytest.mark.parametrize("framework", MAINS)
def test_domainnet_counts(framework, capsys):
    assert MAINS[framework](["params", "--config", "configs/domainnet.yaml"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[2:]}
    assert rows["bi_aten"] == ["10,112,768", "10,557,818"]
    assert rows["aten"] == ["4,464,384", "4,909,434"]
    assert rows["uniform"] == ["1,314,560", "1,759,610"]


def test_shared_projections_are_the_other_reading(capsys):
    """With one W^F and one W^O for all sources the count is half of what the paper prints."""
    arguments = ["--method", "bi_aten", "--set", "profile.projections=shared"]
    assert torch_main(["params", "--config", "domainnet", *arguments]) == 0
    assert capsys.readouterr().out.split()[-2:] == ["5,172,992", "5,618,042"]
