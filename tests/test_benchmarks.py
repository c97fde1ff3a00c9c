"""What the benchmarks compare is the same computation, counted right."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import cost_model, tables
from benchmarks.authors import AuthorsStep, labels_by_sample
from benchmarks.gemms import step_products
from benchmarks.growth import exponent
from benchmarks.measuring import ROOT
from benchmarks.problems import Problem
from benchmarks.sides import surveyed
from ms_biaten.spec.shapes import Sizes
from torch_ref.backend import make_engine
from torch_ref.pseudo_label import class_distances, euclidean_distance, nearest_class


def small(method, sizes):
    return dataclasses.replace(Problem.of("domainnet", method), sizes=sizes)


SMALL = Sizes(sources=3, classes=11, raw=24, width=8, heads=2, embedding=13)


@pytest.mark.parametrize("learned", [True, False])
def test_the_authors_structure_computes_what_the_mirror_does(learned):
    problem = small("bi_aten", SMALL)
    bank = problem.bank(60)
    ours = make_engine(problem.config, problem.sizes, problem.arrays())
    theirs = AuthorsStep(problem.config, problem.sizes)
    theirs.load(problem.arrays())
    memory = surveyed("torch_ref", ours, bank, 20)
    surveyed("authors", theirs, bank, 20)
    for start in (0, 20, 40, 10):
        rows = np.arange(start, start + 20)
        record = ours.step(bank.rows(rows), memory[rows], 0.1, learned)
        loss = theirs.step(bank.rows(rows), torch.from_numpy(rows), 0.1, learned)
        assert record["loss"] == pytest.approx(loss, abs=2e-6)


def test_labels_by_sample_are_the_labels():
    sizes = SMALL
    problem = small("bi_aten", sizes)
    engine = make_engine(problem.config, sizes, problem.arrays())
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(50, sizes.sources, sizes.width)).astype(np.float32)
    beta = rng.dirichlet(np.ones(sizes.sources), 50).astype(np.float32)
    mu = rng.normal(size=(sizes.sources, sizes.classes, sizes.width)).astype(np.float32)
    phi, beta, mu = map(torch.from_numpy, (phi, beta, mu))
    engine.set_clusters(mu, torch.ones(mu.shape[:2]))
    distances = class_distances(phi, beta, *engine.clusters, euclidean_distance)
    assert (nearest_class(distances) == labels_by_sample(phi, beta, mu)).all()


def flop_of_linear(x, weight, *_, **__):
    """Of shapes (S,K) and (J,K): PyTorch's counter does not know oneDNN's."""
    return 2 * x[0] * weight[0] * weight[1]


@pytest.mark.parametrize("method", ["bi_aten", "aten"])
def test_the_formula_counts_the_products_of_a_step(method):
    """PyTorch counts its own; beyond ours it has the thin ones, of weights and outputs."""
    sizes = Sizes(sources=3, classes=260, raw=128, width=64, heads=2, embedding=128)
    problem = small(method, sizes)
    batch = problem.config.train.batch_size
    bank = problem.bank(batch)
    engine = make_engine(problem.config, sizes, problem.arrays())
    memory = surveyed("torch_ref", engine, bank, batch)
    by_onednn = {torch.ops.mkldnn._linear_pointwise: flop_of_linear}
    with FlopCounterMode(display=False, custom_mapping=by_onednn) as counter:
        engine.step(bank.rows(np.arange(batch)), memory, 0.1, True)
    by_formula = 2 * sum(p.multiply_adds for p in step_products(sizes, batch, method))
    assert by_formula == pytest.approx(counter.get_total_flops(), rel=0.03)


def test_exponents_are_those_of_powers():
    sizes = [2, 4, 8, 16]
    assert exponent(sizes, [3 * size**1.5 for size in sizes]) == 1.5


def test_the_cost_model_counts_the_parameters_and_finds_its_coefficients():
    sizes = [Sizes(n, c, 1024, 256, 4, 512) for n in (2, 5, 12) for c in (150, 345, 700)]
    problem = Problem.of("domainnet", "bi_aten")
    engine = make_engine(problem.config, problem.sizes, problem.arrays())
    assert cost_model.parameters(problem.sizes) == engine.parameter_count()
    wanted = np.array([1e-11, 2e-9, 3e-9, 4e-3])
    points = [(s, cost_model.step_seconds(wanted, s)) for s in sizes]
    assert cost_model.fitted(points) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    "name", [table.__name__ for table in tables.TABLES if table != tables.fuzz]
)
def test_the_page_has_what_was_measured(name):
    assert getattr(tables, name)() in (ROOT / "docs/scaling.md").read_text()
