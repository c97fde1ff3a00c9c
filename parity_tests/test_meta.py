"""The harness can fail: each fault that a port may have is put in by hand, and must be seen."""

import numpy as np
import pytest

import ms_biaten.attention
from parity_tests import harness
from parity_tests.cases import CASES, TOLERANCE
from parity_tests.harness import check, error, worst
from parity_tests.trajectory import differences

BY_NAME = {case.name: case for case in CASES}
LIMIT = TOLERANCE["float32"]


def broken(monkeypatch, name, change):
    """The errors of a case whose MindSpore function is replaced by a faulty one."""
    case = BY_NAME[name]
    function = case.function.split(".")[1]
    original = getattr(ms_biaten.attention, function)
    monkeypatch.setattr(ms_biaten.attention, function, change(original))
    return check(case, "pynative", "float32")


def test_swapped_domains_are_seen(monkeypatch):
    errors = broken(
        monkeypatch,
        "cross_outputs",
        lambda f: lambda phi, weight, bias: f(phi, weight, bias).swapaxes(1, 2),
    )
    assert errors["torch"] > 10 * LIMIT
    assert errors["oracle"] > 10 * LIMIT


def test_a_transposed_weight_is_seen(monkeypatch):
    def change(original):
        def faulty(phi, weight, bias, heads):
            joined = weight.reshape(-1, weight.shape[0]).T.reshape(weight.shape)
            return original(phi, joined, bias, heads)

        return faulty

    assert broken(monkeypatch, "joint_query", change)["torch"] > 10 * LIMIT


def test_a_cut_gradient_is_seen(monkeypatch):
    from mindspore import ops

    errors = broken(
        monkeypatch,
        "ensemble",
        lambda f: lambda beta, outputs: f(ops.stop_gradient(beta), outputs),
    )
    assert errors["torch"] <= LIMIT
    assert errors["torch_grad"] > 10 * LIMIT
    assert errors["oracle_grad"] > 10 * LIMIT


def test_nan_on_one_side_is_seen():
    assert error(np.array([1.0, np.nan]), np.array([1.0, 1.0])) == np.inf
    assert error(np.array([1.0, 1.0]), np.array([1.0, np.nan])) == np.inf
    assert error(np.array([np.nan]), np.array([np.nan])) == np.inf


def test_a_missing_output_is_seen():
    with pytest.raises(AssertionError, match="2 outputs against 1"):
        worst([np.ones(2), np.ones(2)], [np.ones(2)])
    with pytest.raises(AssertionError, match="shapes differ"):
        error(np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(AssertionError, match="nothing"):
        error(np.ones(0), np.ones(0))


def test_a_missing_quantity_of_a_trajectory_is_seen():
    with pytest.raises(AssertionError, match="records differ"):
        differences({"step 0.0 loss": np.ones(1)}, {})


def test_one_wrong_label_is_seen():
    labels = np.arange(397)
    wrong = labels.copy()
    wrong[5] += 1
    assert differences({"labels": wrong}, {"labels": labels})["labels"] > 10 * LIMIT


def test_a_plain_sum_would_prove_nothing(monkeypatch):
    """Why cotangents are random: weights sum to 1, so the gradient of their sum is zero."""
    case = BY_NAME["intra_weights-mean_then_softmax-1.0"]
    inputs = harness.draw(case)
    _, (random,) = harness.run_torch(case, inputs, "float64")
    monkeypatch.setattr(harness, "cotangents", lambda case, outputs: [np.ones(outputs[0].shape)])
    _, (plain,) = harness.run_torch(case, inputs, "float64")
    assert np.abs(random).max() > 1e-2
    assert np.abs(plain).max() < 1e-12


def test_the_oracle_stands_alone():
    """It may not borrow from the code that it checks."""
    from pathlib import Path

    text = Path(harness.oracle.__file__).read_text()
    assert "ms_biaten" not in text
    assert "torch_ref" not in text
    assert [line for line in text.splitlines() if line.startswith(("import", "from"))] == [
        "import numpy as np"
    ]


def test_a_prediction_may_differ_on_the_border_alone():
    one = {"start predicted": np.array([0, 1, 2, 2]), "start margin": np.array([1e-7, 0.5, 1, 1])}
    for row, share in ((0, 0.0), (1, 0.25)):
        other = {name: array.copy() for name, array in one.items()}
        other["start predicted"][row] = 3
        assert differences(one, other)["start predicted"] == share
