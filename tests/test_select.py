"""`ms-biaten select`: a choice without labels, and with labels what it costs."""

import json
import math

import pytest

from ms_biaten.cli import main
from ms_biaten.spec.loading import dump, load_config
from ms_biaten.spec.selection import ranks, spearman

EPOCHS = [  # im, snd, entropy, accuracy: im is right, snd chooses the worst, entropy is tied
    (-0.5, 3.0, 1.0, 50.0),
    (-0.9, 2.0, 1.0, 70.0),
    (-0.7, 2.5, 1.0, 60.0),
]


def write_run(path, epochs=EPOCHS, *, labels=True, finished=True, **options):
    """A run's folder as training leaves it, with these measures after its epochs."""
    path.mkdir(parents=True)
    options.setdefault("target", "night")
    config = load_config("debug", overrides=["train.epochs=3"], **options)
    (path / "config.yaml").write_text(dump(config))
    rows = []
    for epoch, (im, snd, entropy, accuracy) in enumerate(epochs, 1):
        row = {"kind": "epoch", "epoch": epoch, "im": im, "snd": snd, "entropy": entropy}
        rows.append(row | ({"accuracy": accuracy} if labels else {}))
    rows.insert(0, {"kind": "start", "epoch": 0, "im": 0, "snd": 0, "entropy": 0})
    if finished:
        rows.append({**rows[-1], "kind": "final", "selected_epoch": len(epochs)})
    (path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def select(capsys, *arguments):
    assert main(["select", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def row(output, name):
    return next(line.split() for line in output.splitlines() if line.startswith(name))


def test_each_criterion_chooses_and_is_judged(folder, capsys):
    write_run(folder / "one")
    output = select(capsys, "one")
    assert row(output, "im") == ["im", "one", "2", "-0.900", "70.0", "0.0", "1.00"]
    assert row(output, "snd") == ["snd", "one", "1", "3.000", "50.0", "20.0", "-1.00"]
    assert row(output, "entropy") == ["entropy", "one", "1", "1.000", "50.0", "20.0", "-"]
    assert row(output, "ORACLE")[:4] == ["ORACLE", "one", "2", "70.0"]
    assert "not a fair result" in output


def test_runs_below_a_folder_are_ranked_together(folder, capsys):
    write_run(folder / "runs/one")
    write_run(folder / "runs/deep/two", [(-1.2, 1.0, 0.5, 40.0)])
    output = select(capsys, "runs", "runs/one")
    assert "debug -> night: 2 runs, 4 epochs" in output
    assert row(output, "im")[1:6] == ["runs/deep/two", "1", "-1.200", "40.0", "30.0"]
    assert row(output, "snd")[1] == "runs/one"


def test_without_labels_only_the_choice_is_shown(folder, capsys):
    write_run(folder / "one", labels=False)
    output = select(capsys, "one")
    assert row(output, "im") == ["im", "one", "2", "-0.900"]
    assert "accuracy" not in output
    assert "ORACLE" not in output


def test_targets_are_not_ranked_together(folder, capsys):
    write_run(folder / "runs/one")
    write_run(folder / "runs/two", target="dusk")
    write_run(folder / "runs/three", settings={"data.bank": "other"})
    output = select(capsys, "runs")
    for title in ("debug -> night: 1 run", "debug -> dusk: 1 run", "debug -> night (other): 1 run"):
        assert title in output


def test_a_half_written_run_is_used_as_far_as_it_goes(folder, capsys):
    write_run(folder / "runs/one", EPOCHS[:2], finished=False)
    output = select(capsys, "runs")
    assert "unfinished, used as far as it goes: runs/one (epoch 2 of 3)" in output
    assert row(output, "im")[2] == "2"


def test_a_method_that_trains_nothing_takes_part(folder, capsys):
    write_run(folder / "runs/one")
    write_run(folder / "runs/bn", [], settings={"method.name": "bn_only"}, labels=False)
    text = (folder / "runs/bn/results.jsonl").read_text()
    (folder / "runs/bn/results.jsonl").write_text(text.replace('"im": 0', '"im": -9'))
    output = select(capsys, "runs")
    assert row(output, "im")[1:4] == ["runs/bn", "0", "-9.000"]


def test_a_measure_that_is_not_finite_is_never_chosen(folder, capsys):
    write_run(folder / "one", [*EPOCHS[:2], (math.nan, math.nan, math.nan, 60.0)])
    assert row(select(capsys, "one"), "snd")[2:6] == ["1", "3.000", "50.0", "20.0"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / "config.yaml").unlink(), "holds no run (config.yaml is missing)"),
        (lambda run: (run / "results.jsonl").unlink(), "no run there (no results.jsonl)"),
        (lambda run: (run / "results.jsonl").write_text("{"), "not readable as JSON lines"),
        (lambda run: (run / "results.jsonl").write_text("[1]"), "line 1 is no start, epoch or"),
        (lambda run: (run / "results.jsonl").write_text(""), "no epoch is finished there yet"),
        (
            lambda run: (run / "results.jsonl").write_text('{"kind": "epoch", "epoch": 1}'),
            "line 1 has no number 'snd'",
        ),
    ],
)
def test_what_is_no_run_is_named(folder, capsys, damage, message):
    write_run(folder / "one")
    damage(folder / "one")
    assert main(["select", "one"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert "one" in line


def test_rank_correlation_by_hand():
    assert list(ranks([10, 30, 20, 20])) == [1, 4, 2.5, 2.5]
    # Differences of ranks 0, 1, 1, 0: 1 - 6 * 2 / (4 * 15).
    assert spearman([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    assert spearman([1, 2, 3], [9, 5, 1]) == pytest.approx(-1)
    assert math.isnan(spearman([1, 1], [1, 2]))
