"""Hand-computed examples of what the methods add, and that each of them runs and resumes."""

import resource

import numpy as np
import pytest
import torch

from ms_biaten.spec.anchors import (
    anchored_labels,
    anchors,
    confident_samples,
    distance_margin,
    probability_margin,
)
from ms_biaten.spec.bank import Bank
from ms_biaten.spec.habitat import (
    EPSILON,
    discriminability,
    habitat_density,
    habitat_uncertainty,
)
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.methods import initial_arrays
from ms_biaten.spec.neighbours import nearest, unit_rows
from ms_biaten.spec.shapes import Sizes
from tests.conftest import results
from torch_ref.cli import main
from torch_ref.engine import Engine
from torch_ref.methods.decision import Decision
from torch_ref.methods.weights import sigmoid_weights

# -- neighbours -------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 300, 1 << 24])
@pytest.mark.parametrize("itself", [True, False])
def test_nearest_equals_a_full_sort(block, itself):
    x = unit_rows(np.random.default_rng(0).normal(size=(97, 6)))
    rows, similarity = nearest(x, 5, itself=itself, block=block)
    full = x @ x.T
    np.fill_diagonal(full, 2.0 if itself else -2.0)
    assert (rows == np.argsort(-full, axis=1)[:, :5]).all()
    if itself:
        np.fill_diagonal(full, 1.0)
    assert np.allclose(similarity, np.take_along_axis(full, rows, 1))


# -- CAiDA ------------------------------------------------------------------------------------


def test_margins():
    assert probability_margin(np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]])) == pytest.approx(
        [0.2, 0.7]
    )
    assert distance_margin(np.array([[0.9, 0.4, 0.1], [0.2, 0.2, 1.0]])) == pytest.approx(
        [0.3, 0.0]
    )


def test_confident_is_who_is_in_the_better_half_by_either_margin():
    # Margins of probability: .8 .6 .4 .2 (worse half: 2, 3); of distance: .1 .7 .6 .0 (0, 3).
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    distances = np.array([[0.1, 0.2], [0.1, 0.8], [0.1, 0.7], [0.1, 0.1]])
    assert confident_samples(p, distances).tolist() == [True, True, True, False]


def angle(degrees):
    return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], 1)


def test_a_walk_ends_at_the_first_confident_sample():
    # On a circle at 0, 10, 19, 27 and 90 degrees: from 0 to 10 to 19 to 27, each the next nearest.
    features = angle(np.array([0.0, 10, 19, 27, 90]))
    only = np.array([False, False, False, True, False])
    # 27's own walk goes 19, 10, 0, 90 and meets nobody confident: its first neighbour is taken.
    assert anchors(features, only).tolist() == [3, 3, 3, 2, 3]
    both = np.array([True, False, False, True, False])
    # From 10, the nearest is 19 (9 degrees), not 0 (10 degrees); from 0: 10, 19, 27.
    assert anchors(features, both).tolist() == [3, 3, 3, 0, 3]


def test_a_walk_goes_beyond_the_listed_neighbours():
    """Twelve unsure samples close together: a walk visits all of them before the far one."""
    features = angle(np.concatenate([np.linspace(0, 3, 12), [80.0]]))
    confident = np.zeros(13, bool)
    confident[12] = True
    assert (anchors(features, confident)[:12] == 12).all()


def test_unsure_samples_take_their_anchors_label():
    """Two tight groups, one class each; one sample of the second looks like the first to p."""
    mixed = np.array([[4.0, 0], [4, 0.1], [4, -0.1], [0, 4], [0.1, 4], [0.2, 4]])
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.52, 0.48]])
    labels = anchored_labels(p, mixed, mixed, np.random.default_rng(0))
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_class_that_no_sample_is_near_is_never_a_label():
    mixed = np.random.default_rng(1).normal(size=(30, 4))
    p = np.tile([0.5, 0.5, 0.0], (30, 1))
    p[:15, :2] = [0.9, 0.1]
    assert 2 not in anchored_labels(p, mixed, mixed, np.random.default_rng(0))


def test_fifty_thousand_samples_need_no_square_matrix():
    """50,000 squared in float32 would be 10 GB."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50_000, 8)).astype(np.float32)
    confident = rng.random(50_000) < 0.5
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = anchors(features, confident)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kilobytes
    assert grown < 1_000_000
    assert (found != np.arange(50_000)).all()
    assert confident[found].mean() > 0.99


# -- DATE -------------------------------------------------------------------------------------


def test_habitat_density_leaves_the_sample_itself_out():
    similarity = np.array([[1.0, 0.8, 0.6], [1.0, 0.4, 0.2]])
    assert habitat_density(similarity) == pytest.approx((0.8 + 0.6 + 0.4 + 0.2) / 4)


def test_habitat_uncertainty_is_the_entropy_of_the_labels_around():
    labels = np.array([0, 0, 1, 1])
    rows = np.array([[0, 1], [1, 2], [2, 3], [3, 2]])  # histograms: pure, even, pure, pure
    even = -2 * 0.5 * np.log(0.5 + EPSILON)
    pure = -np.log(1 + EPSILON)
    assert habitat_uncertainty(labels, rows, 2) == pytest.approx((even + 3 * pure) / 4)


def test_sure_and_dense_is_more_discriminable():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 40)
    centers = np.eye(3)[labels]
    tight = unit_rows(centers + 0.05 * rng.normal(size=centers.shape))
    loose = unit_rows(centers + 0.60 * rng.normal(size=centers.shape))
    assert discriminability(tight, labels, 3) > 10 * discriminability(loose, labels, 3) > 0


# -- DECISION ---------------------------------------------------------------------------------


def test_decisions_weights():
    w = sigmoid_weights(torch.tensor([0.0, np.log(3.0)]))  # sigmoids 1/2 and 3/4
    assert w.tolist() == pytest.approx([0.4, 0.6])


def test_decisions_two_stages_by_hand():
    """One source, features as they are: soft centroids, labels by cosine, then hard centroids."""
    config = load_config(
        "debug",
        overrides=("method=decision", "model.raw_width=2", "model.width=2", "train.batch_size=2"),
    )
    sizes = Sizes.of(config, 2, 2)
    identity = np.stack([np.eye(2, dtype=np.float32)] * 2)
    arrays = {
        "bottlenecks.weight": identity * np.sqrt(1 + 1e-5),  # batch normalisation's own epsilon
        "bottlenecks.bias": np.zeros((2, 1, 2)),
        "bottlenecks.norm.weight": np.ones(4),
        "bottlenecks.norm.bias": np.zeros(4),
        "bottlenecks.norm.running_mean": np.zeros(4),
        "bottlenecks.norm.running_var": np.ones(4),
        "classifiers.weight": 2 * identity,
        "classifiers.bias": np.zeros((2, 2)),
        **initial_arrays(config, sizes),
    }
    engine = Decision(config, sizes, {n: a.astype(np.float32) for n, a in arrays.items()})
    points = np.array([[3.0, 0], [2, 1], [0, 3]], np.float32)
    bank = Bank("night", ("a", "b"), ("x", "y"), ("1", "2", "3"), np.stack([points] * 2, 1))
    features = engine.relabel(bank, 2, 0)

    longer = np.concatenate([points, np.ones((3, 1))], 1)
    f = longer / np.linalg.norm(longer, axis=1, keepdims=True)
    assert np.allclose(features[:, 0], f, atol=1e-6)
    # The first two samples are nearest to x's soft centroid, the third to y's.
    expected = np.stack([(f[0] + f[1]) / 2, f[2]])
    assert np.allclose(engine.clusters[0], np.concatenate([expected, expected], 1), atol=1e-6)


# -- runs -------------------------------------------------------------------------------------

RUNS = [("shot", "native"), ("decision", "aten"), ("caida", "native"), ("date", "native")]


@pytest.mark.parametrize(("name", "weights"), RUNS)
def test_a_method_trains_and_resumes_to_the_same_numbers(tmp_path, monkeypatch, name, weights):
    """PyTorch, for its quick start; parity holds MindSpore to it."""
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    run = ["train", "--config", "debug", "--method", name, "--set", f"method.weights={weights}"]
    assert main([*run, "--set", "train.epochs=2", "--output", "whole"]) == 0
    lines = results(tmp_path / "whole")
    assert [line["kind"] for line in lines] == ["start", "epoch", "epoch", "final"]
    assert lines[-1]["accuracy"] > lines[0]["baselines"]["AVG-ENS"]
    assert sum(lines[-1]["beta"]) == pytest.approx(1)

    original, count = Engine.step, iter(range(10**6))

    def stop(self, *arguments):
        if next(count) == 20:
            raise KeyboardInterrupt
        return original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "step", stop)
        with pytest.raises(SystemExit):
            main([*run, "--set", "train.epochs=2", "--output", "broken"])
    assert main(["train", "--resume", "broken"]) == 0
    for one, other in zip(lines[1:], results(tmp_path / "broken")[1:], strict=True):
        assert all(one[key] == other[key] for key in one if key != "seconds")


def test_a_method_keeps_its_recipe_below_the_command_line():
    recipe = load_config("emoji", settings={"method.name": "date"})
    assert (recipe.train.epochs, recipe.train.batch_size, recipe.loss.gamma) == (15, 64, 0.3)
    assert recipe.profile.lr_schedule == "inverse_progress"
    chosen = load_config("emoji", overrides=("method=date", "train.epochs=3"))
    assert (chosen.train.epochs, chosen.train.batch_size) == (3, 64)
    assert load_config("emoji").train.epochs == 30


def test_a_file_that_names_the_method_stands_above_its_recipe(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("target: night\nmethod: decision\ntrain: {epochs: 4}\n")
    config = load_config(str(path))
    assert (config.method.name, config.train.epochs, config.train.lr) == ("decision", 4, 0.01)
