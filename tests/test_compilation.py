"""One compiled step: after the first epoch nothing is compiled again."""

import importlib

import pytest

from parity_tests.trajectory import make_adapter, small_bank, trajectory_config


@pytest.mark.parametrize(("profile", "labelled"), [("paper", 1), ("official", 0)])
def test_nothing_is_compiled_after_the_first_epoch(profile, labelled):
    from ms_biaten.spec.algorithm import take_survey
    from ms_biaten.spec.schedules import epoch_batches

    bank, config = small_bank(), trajectory_config(profile)
    adapter = make_adapter("mindspore", config, bank)
    counts = []
    for epoch in range(3):
        take_survey(adapter, bank, config.run.eval_batch)
        memory = adapter.relabel(bank, config.run.eval_batch, 0)
        for index, rows in enumerate(epoch_batches(0, epoch, len(bank), 31)):
            # Learning rate and one-hot switch change at every step; both are tensors.
            adapter.step(bank.rows(rows), memory[rows], 0.01 / (index + 1), index % 2 == 0)
        graphs = (adapter.forward, adapter.nearest, adapter.update)
        counts.append([len(graph.compile_cache) for graph in graphs])
    # The forward pass; the labels, where they are an epoch's; the step, and the step for the last,
    # shorter batch.
    assert counts == [[1, labelled, 2]] * 3


@pytest.mark.parametrize("framework", ["mindspore", "torch"])
def test_labels_do_not_depend_on_how_many_are_made_at_once(framework, monkeypatch):
    """Groups of chunks, a shorter last one: the same labels as all at once, by one graph."""
    from ms_biaten.spec.algorithm import take_survey

    bank, config = small_bank(), trajectory_config("paper")
    adapter = make_adapter(framework, config, bank)
    take_survey(adapter, bank, 10)
    whole = adapter.relabel(bank, 10, 0)
    grouped = make_adapter(framework, config, bank)
    module = importlib.import_module(type(adapter).__module__)
    monkeypatch.setattr(module, "LABELLED", 25)
    take_survey(grouped, bank, 10)
    assert len(bank) % 30
    assert (grouped.relabel(bank, 10, 0) == whole).all()
    if framework == "mindspore":
        assert len(grouped.nearest.compile_cache) == 1
