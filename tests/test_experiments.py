"""Grids and their record: nothing runs twice, nothing is lost, nothing is mixed."""

import dataclasses
import importlib
import json

import pytest

import torch_ref.cli
from ms_biaten.spec.bank import save_bank
from ms_biaten.spec.debug import debug_bank
from ms_biaten.spec.errors import RunError, UserError
from ms_biaten.spec.experiments import methods, running
from ms_biaten.spec.experiments.catalogue import EXPERIMENTS
from ms_biaten.spec.experiments.command import FRAMEWORKS
from ms_biaten.spec.experiments.grid import cells
from ms_biaten.spec.experiments.identity import key_of
from ms_biaten.spec.experiments.layout import Table, latex, markdown
from ms_biaten.spec.experiments.noise import difference
from ms_biaten.spec.experiments.paper import paper
from ms_biaten.spec.experiments.record import Record
from ms_biaten.spec.experiments.results import mean_over_targets, spread
from ms_biaten.spec.loading import load_config

GRID = ["controls", "--config", "debug", "--targets", "dusk", "--profiles", "paper"]
RECORD = "runs/experiments/debug.jsonl"


def experiment(*arguments):
    return torch_ref.cli.main(["experiment", *GRID, "--seeds", "1", *arguments])


def recorded(folder):
    return [json.loads(line) for line in (folder / RECORD).read_text().splitlines()]


@pytest.fixture
def runs(monkeypatch):
    """No training: the methods that were asked for, with an accuracy of 90 each."""
    asked = []

    def run_in(config, backend):
        asked.append(config.method.name)
        measured = {"accuracy": 90.0, "class_accuracy": 90.0}
        start = {"kind": "start", "versions": {}, "trained_parameters": 7, **measured}
        start["baselines"] = {"source dawn": 50.0, "source noon": 60.0, "AVG-ENS": 55.0}
        final = {"kind": "final", "beta": [0.5, 0.5], "selected_epoch": 1, "seconds": 1.0}
        epoch = {"kind": "epoch", "seconds": 0.5, **measured}
        return [start, epoch, {**final, **measured}], 1000

    monkeypatch.setattr(running, "run_in", run_in)
    return asked


ALL = ["bn_only", "uniform", "aten", "bi_aten"]


# -- the grid ---------------------------------------------------------------------------------


def test_what_trains_nothing_has_one_seed():
    grid = cells(methods.CONTROLS, ("paper", "official"), ("dusk", "night"), 5)
    assert len(grid) == len(set(grid)) == 2 * 2 * (1 + 3 * 5)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_row_is_a_config(name):
    rows = EXPERIMENTS[name].rows
    assert len({row.title for row in rows}) == len({row.settings for row in rows}) == len(rows)
    for row in rows:
        (cell,) = cells([row], ["paper"], ["night"], 1)
        assert cell.config("debug").method.name == row.method
        assert row.control in ("", *(other.title for other in rows))


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"run.output": "elsewhere"}, True),
        ({"run.device": "GPU"}, True),
        ({"run.checkpoint_seconds": 0.0}, True),
        ({"train.lr": 0.5}, False),
        ({"run.seed": 1}, False),
        ({"profile.heads": "softmax_then_mean"}, False),
    ],
)
def test_a_key_is_of_what_is_computed(changes, same):
    keys = {key_of(load_config("debug", settings=s), "torch") for s in ({}, changes)}
    assert (len(keys) == 1) == same


def test_a_key_names_the_framework():
    assert key_of(load_config("debug"), "torch") != key_of(load_config("debug"), "mindspore")


@pytest.mark.parametrize("backend", FRAMEWORKS)
def test_frameworks_are_called_what_they_call_themselves(backend):
    assert importlib.import_module(backend).versions()["framework"] == FRAMEWORKS[backend]


def test_a_key_is_of_the_bank_and_not_of_its_folder(folder):
    bank = debug_bank("night")
    other = dataclasses.replace(bank, features=bank.features + 1)
    for name, content in {"one": bank, "copy": bank, "other": other}.items():
        save_bank(folder / name, content)
    one, copy, other = (
        key_of(load_config("debug", settings={"data.bank": name}), "torch")
        for name in ("one", "copy", "other")
    )
    assert one == copy != other


# -- running ----------------------------------------------------------------------------------


def test_real_runs_then_none(folder, capsys, monkeypatch):
    small = ["--set", "train.epochs=1", "--set", "attention.width=8"]
    assert experiment(*small, "--keep", "kept", "--output", "a.md", "--latex", "a.tex") == 0
    shown = capsys.readouterr().out
    assert (folder / "a.md").read_text() in shown
    assert (folder / "a.tex").read_text().count("toprule") == 1
    assert len(list(folder.glob("kept/dusk/*/predictions.csv"))) == 4
    line = recorded(folder)[-1]
    assert (line["method"], line["set"]) == ("bi_aten", ["train.epochs=1", "attention.width=8"])
    assert len(line["accuracies"]) == 2 and line["accuracies"][-1] == line["accuracy"]
    assert line["samples_per_second"] > 0 and line["versions"]["framework"] == "torch"

    before = (folder / RECORD).read_bytes()
    (folder / RECORD).unlink()
    assert experiment(*small, "--keep", "kept") == 0
    assert (folder / RECORD).read_bytes() == before  # from the runs that were kept

    capsys.readouterr()
    monkeypatch.setattr(running, "run_in", None)
    assert experiment(*small) == 0
    assert capsys.readouterr().out.strip() == (folder / "a.md").read_text().strip()
    assert (folder / RECORD).read_bytes() == before


def test_two_at_a_time(folder):
    small = ["--set", "train.epochs=1", "--set", "attention.width=8"]
    assert experiment(*small, "--jobs", "2") == 0
    assert sorted(line["method"] for line in recorded(folder)) == sorted(ALL)


def test_experiments_share_their_cells(folder, runs):
    assert experiment() == 0
    del runs[:]
    options = [*GRID[1:], "--seeds", "1"]
    assert torch_ref.cli.main(["experiment", "table4", *options]) == 0
    assert runs == ["bi_aten"] * 3  # the full method and ATEN are there already
    assert torch_ref.cli.main(["experiment", "fig7", *options]) == 0
    assert recorded(folder)[-1]["overrides"] == {"loss.lambda_intra": 2.0, "loss.gamma": 1.0}


def test_rows_that_are_the_same_here_run_once(folder, runs):
    options = [*GRID[1:], "--seeds", "1", "--set", "profile.one_hot_epochs=never"]
    assert torch_ref.cli.main(["experiment", "table4", *options]) == 0
    assert len(runs) == 4


def test_an_interrupt_keeps_what_is_done(folder, runs, capsys, monkeypatch):
    counted = running.run_in

    def interrupted(config, backend):
        if config.method.name == "aten":
            raise KeyboardInterrupt
        return counted(config, backend)

    monkeypatch.setattr(running, "run_in", interrupted)
    assert experiment() == 130
    assert "the same command goes on from here" in capsys.readouterr().err
    assert [line["method"] for line in recorded(folder)] == ALL[:2]
    monkeypatch.setattr(running, "run_in", counted)
    assert experiment() == 0
    assert runs == ALL


def test_ctrl_c_within_a_run_stops_the_grid(folder, monkeypatch):
    def train(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "train", train)
    assert experiment() == 130


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RunError("loss became nan in epoch 1, batch 1; x keeps it"),
            "loss became nan in epoch 1,",
        ),
        (RuntimeError("no kernel"), "RuntimeError: no kernel"),
    ],
)
def test_a_failed_cell_is_shown_and_retried_when_asked(
    folder, runs, capsys, monkeypatch, error, message
):
    counted = running.run_in

    def failing(config, backend):
        if config.method.name == "aten":
            raise error
        return counted(config, backend)

    monkeypatch.setattr(running, "run_in", failing)
    assert experiment() == 1
    shown = capsys.readouterr()
    assert "| ATEN | failed | failed |" in shown.out
    assert f"failed: ATEN →dusk, paper profile, seed 0: {message}" in shown.out
    assert "1 of 4 cells failed; --retry-failed runs them again" in shown.err
    assert "keeps it" not in (folder / RECORD).read_text()

    monkeypatch.setattr(running, "run_in", counted)
    del runs[:]
    assert experiment() == 1
    assert runs == []
    assert experiment("--retry-failed") == 0
    assert runs == ["aten"]
    assert "| ATEN | 90.0 | 90.0 |" in capsys.readouterr().out


# -- the record -------------------------------------------------------------------------------


def test_other_settings_are_left_aside(folder, runs, capsys):
    assert experiment() == 0
    assert experiment("--set", "train.lr=0.5") == 0
    assert f"{RECORD}: 4 lines of other settings are left aside" in capsys.readouterr().out
    assert len(runs) == len(recorded(folder)) == 8


def test_lines_without_a_key_are_left_aside(folder, runs, capsys):
    (folder / "old.jsonl").write_text('{"method": "aten", "accuracy": 1.0}\n')
    assert experiment("--record", "old.jsonl") == 0
    assert "old.jsonl: 1 line of other settings is left aside" in capsys.readouterr().out


def test_a_torn_last_line_is_dropped_and_run_again(folder, runs, capsys):
    assert experiment() == 0
    path = folder / RECORD
    path.write_bytes(path.read_bytes()[:-40])
    assert experiment() == 0
    assert "its last line was cut off and is dropped" in capsys.readouterr().out
    assert runs == [*ALL, "bi_aten"]
    assert [line["method"] for line in recorded(folder)] == ALL


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"key": ', "line 2: not readable as JSON"),
        ("[1]", "line 2 is not a JSON object"),
        ('{"key": "k"}', "line 2 has no 'accuracy'"),
    ],
)
def test_a_broken_line_is_named(folder, line, message):
    path = folder / "record.jsonl"
    path.write_text(f'{{"key": "j", "failed": "so"}}\n{line}\n{{}}\n')
    with pytest.raises(UserError, match=f"record.jsonl: {message}"):
        Record(path)


# -- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--targets", "nite"], "target 'nite' is not a domain of debug"),
        (["--seeds", "0"], "--seeds: expected at least 1, found 0"),
        (["--jobs", "0"], "--jobs: expected at least 1, found 0"),
        (["--output", "no/where.md"], "there is no folder no; make it first"),
        (["--set", "train.lrr=1"], "unknown key 'train.lrr'"),
        (["--set", "run.device=TPU"], "device 'TPU' is not there"),
        (["--config", "emoji", "--targets", "noto", "--set", "data.bank=x"], "`make emoji` builds"),
        (["--config", "own", "--targets", "mine"], "data.bank: not set"),
    ],
)
def test_a_mistake_is_one_line(folder, capsys, arguments, message):
    assert experiment(*arguments) == 2
    assert message in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_a_target_without_labels_has_no_tables(folder, capsys):
    save_bank(folder / "bank", dataclasses.replace(debug_bank("dusk"), labels=None))
    assert experiment("--set", "data.bank=bank") == 2
    assert "target 'dusk' has no labels" in capsys.readouterr().err


# -- numbers and text -------------------------------------------------------------------------


def test_deviation_is_over_seeds_of_the_mean_over_targets():
    columns = [[80.0, 82.0], [60.0, 58.0]]
    assert [spread(column) for column in columns] == ["81.0 ± 1.4", "59.0 ± 1.4"]
    assert spread(mean_over_targets(columns)) == "70.0 ± 0.0"
    assert spread([70.0]) == "70.0"
    assert spread(mean_over_targets([[70.0], None])) == "failed"


def test_gains_are_read_against_the_noise():
    assert difference([71.0, 73.0], [70.0, 70.0]) == "+2.0 (above the seed noise, 1.4) against"
    assert difference([70.0, 72.0], [70.0, 70.0]) == "+1.0 (within the seed noise, 1.4) against"
    assert difference([69.99], [70.0]) == "+0.0 (one seed: noise unknown) against"


def test_text_is_escaped():
    table = Table("100 %", ["a_b", "x|y"], [[["1 ± 2", "{&}"]]])
    assert markdown(table).splitlines()[0] == "| a_b | x\\|y |"
    assert r"a\_b & x|y \\" in latex(table)
    assert r"1 $\pm$ 2 & \{\&\} \\" in latex(table)
    assert r"\caption{100 \%}" in latex(table)


@pytest.mark.parametrize("table", ["table2", "table3", "table4"])
def test_the_papers_rows_have_the_papers_means(table):
    for section in paper()[table].values():
        for row in section["rows"]:
            assert len(row["values"]) == len(section["targets"])
            mean = sum(row["values"]) / len(row["values"])
            assert abs(mean - row["mean"]) <= 0.1, row


def test_the_papers_tables_agree_where_they_repeat():
    two = {row["method"]: row for row in paper()["table2"]["domainnet"]["rows"]}
    for row in paper()["table1"]:
        same = two.get(row["method"]) or two[f"{row['method']}-best"]
        assert row["accuracy"] == same["mean"]
        assert float(row["parameters"][:-1]) == round(float(same["parameters"][:-1]), 1)
    four = paper()["table4"]["domainnet"]["rows"]
    for name, row in {"Bi-ATEN": four[0], "ATEN": four[1]}.items():
        values = two[name]["values"]
        assert row["values"] == [values[0], values[1], values[5]]
