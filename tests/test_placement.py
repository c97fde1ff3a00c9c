"""Where the features are changes nothing that a run computes."""

import importlib

import numpy as np
import pytest

from ms_biaten.spec.algorithm import take_survey
from ms_biaten.spec.bank import load_bank, save_bank
from ms_biaten.spec.debug import debug_bank
from ms_biaten.spec.placement import DeviceBank, FileBank, placed
from ms_biaten.spec.schedules import epoch_batches
from parity_tests.trajectory import make_adapter, trajectory_config

PLACES = ("disk", "host", "device")


@pytest.fixture(scope="module", params=[np.float16, np.float32])
def mapped(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bank")
    bank = debug_bank("night")
    rounded = bank.features.astype(request.param)
    save_bank(folder, type(bank)(**{**vars(bank), "features": rounded}))
    return load_bank(folder)


def test_a_file_is_read_as_it_was_mapped(mapped):
    bank = placed(mapped, "disk")
    assert isinstance(bank, FileBank)
    rows = np.array([7, 3, 3, len(bank) - 1, 0])
    assert (bank.rows(rows) == mapped.rows(rows)).all()
    ours, theirs = (np.concatenate(list(b.chunks(37))) for b in (bank, mapped))
    assert ours.dtype == np.float32 and (ours == theirs).all()
    order = list(epoch_batches(0, 0, len(bank), 31))
    for (found, ours), rows in zip(bank.batches(order, 0), order, strict=True):
        assert (found == rows).all() and (ours == mapped.rows(rows)).all()


class Shelf:
    """A device that keeps plain arrays."""

    def keep(self, features):
        return features

    def pick(self, kept, rows):
        return kept[rows].astype(np.float32)


@pytest.mark.parametrize("place", PLACES)
def test_a_span_is_those_rows(mapped, place):
    bank = placed(mapped, place)
    bank = DeviceBank.of(bank, Shelf()) if place == "device" else bank
    part = bank.span(slice(20, 90)).span(slice(5, 60))
    assert (len(part), part.samples[0]) == (55, mapped.samples[25])
    assert (part.labels == mapped.labels[25:80]).all()
    assert (np.concatenate(list(part.chunks(20))) == mapped.features[25:80]).all()
    assert (part.rows(np.array([3, 0])) == mapped.features[[28, 25]]).all()


def test_host_holds_a_copy_as_it_is_stored(mapped):
    bank = placed(mapped, "host")
    assert not isinstance(bank.features, np.memmap)
    assert bank.features.dtype == mapped.features.dtype


def test_a_file_that_was_cut_is_named(mapped, tmp_path):
    save_bank(tmp_path, mapped)
    bank = placed(load_bank(tmp_path), "disk")
    path = tmp_path / "center.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(OSError, match=r"center\.npy: ends before row"):
        bank.rows(np.array([len(bank) - 1]))


@pytest.mark.parametrize("framework", ["mindspore", "torch"])
def test_steps_are_the_same_to_the_last_bit(framework, mapped):
    config = trajectory_config("official")
    states = []
    for place in PLACES:
        bank = placed(mapped, place)
        adapter = make_adapter(framework, config, bank)
        if place == "device":
            bank = DeviceBank.of(bank, adapter)
        survey = take_survey(adapter, bank, 50)
        memory = adapter.relabel(bank, 50, 0)
        for rows, seen in bank.batches(epoch_batches(0, 0, len(bank), 31), 0):
            adapter.step(seen, memory[rows], 0.01, True)
        states.append({**adapter.state(), "beta": survey.beta})
    for other in states[1:]:
        assert all((states[0][name] == other[name]).all() for name in states[0])


def test_the_command_takes_every_placement(tmp_path):
    main = importlib.import_module("torch_ref.cli").main
    results = []
    for place in PLACES:
        output = tmp_path / place
        common = ["train", "--config", "emoji", "--method", "uniform", "--no-report"]
        settings = ["train.epochs=1", f"data.placement={place}"]
        common += [part for setting in settings for part in ("--set", setting)]
        assert main([*common, "--output", str(output)]) == 0
        results.append((output / "predictions.csv").read_text())
    assert results[0] == results[1] == results[2]
