"""One compiled step: after the first epoch nothing is compiled again."""

import pytest

from parity_tests.trajectory import make_adapter, small_bank, trajectory_config


@pytest.mark.parametrize("profile", ["paper", "official"])
def test_nothing_is_compiled_after_the_first_epoch(profile):
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
    assert counts == [[1, 1 if profile == "paper" else 0, 2]] * 3
