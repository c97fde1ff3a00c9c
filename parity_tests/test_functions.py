"""Every function of an equation: MindSpore, in both modes, against PyTorch and the oracle."""

import pytest

from parity_tests.cases import CASES, TOLERANCE
from parity_tests.harness import MODES, check


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_function(case, mode, dtype):
    errors = check(case, mode, dtype)
    assert max(errors.values()) <= case.tolerance[dtype], errors


def test_names_are_unique():
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_looser_tolerance_has_a_reason():
    for case in CASES:
        if case.tolerance != TOLERANCE:
            assert case.why, case.name
