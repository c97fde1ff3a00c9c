"""`ms-biaten report`: one page that holds everything, and says what is missing."""

import csv
import dataclasses
import html
import json
import re
import shutil
import struct
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from ms_biaten.cli import main
from ms_biaten.spec.bank import save_bank
from ms_biaten.spec.debug import debug_bank
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.loading import load_config
from ms_biaten.spec.report import drawing, measures
from ms_biaten.spec.report.command import write_report
from ms_biaten.spec.report.sweep import read_sweep, sweep_map
from ms_biaten.spec.report.tensorboard import write_scalars
from tests.conftest import SMALL, results

FIGURES = (
    "convergence",
    "domain-weights",
    "class-weights",
    "intra-weights",
    "sweep",
    "confusion",
    "calibration",
)
HOSTILE = '<script>alert(1)</script>"\'><img src="http://leak.invalid/x.png">&$x_'


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A debug run with controls, made once; tests work on copies."""
    run = tmp_path_factory.mktemp("report") / "run"
    assert main(["train", *SMALL, "--controls", "--output", str(run)]) == 0
    return run


@pytest.fixture
def run(finished, folder):
    shutil.copytree(finished, folder / "run")
    return folder / "run"


def report(run, **options):
    """The page alone: the figures for papers take most of the command's time."""
    return write_report(run, "ms-biaten", **options).read_text()


def rewrite(run, change):
    """results.jsonl with its lines changed."""
    lines = "".join(json.dumps(line) + "\n" for line in change(results(run)))
    (run / "results.jsonl").write_text(lines)


def use_bank(run, bank):
    """Lets the run look for its labels in this bank."""
    save_bank(run.parent / "bank", bank)
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("bank: ''", "bank: bank"))


def rename(run, samples, classes):
    """The run as if its samples and classes had these names."""
    bank = debug_bank("night")
    by_name = dict(zip(bank.classes, classes, strict=True))
    with (run / "predictions.csv").open(newline="") as file:
        heads, *rows = csv.reader(file)
    rows = [[s, by_name[row[1]], *row[2:]] for s, row in zip(samples, rows, strict=True)]
    with (run / "predictions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([heads, *rows])
    use_bank(run, dataclasses.replace(bank, samples=tuple(samples), classes=tuple(classes)))


def sections(page):
    return re.findall(r'<section id="([\w-]+)"', page)


def drawn(page):
    """The sections that have a figure."""
    return [part[: part.index('"')] for part in page.split('<section id="')[1:] if "<svg" in part]


def outside(page):
    """Whatever in the page could make a browser ask for something."""
    found = re.findall(r'(?:src|href|srcset|action|data)="([^"]*)"', page)
    found += re.findall(r"url\(([^)]*)\)", page) + re.findall(r"@import[^;]*", page)
    return [link for link in found if not link.startswith(("#", "data:"))]


def test_every_section_is_there(run, capsys):
    cells = [{"lambda_intra": x, "gamma": y, "accuracy": 50} for x in (0, 1) for y in (0.1, 1)]
    cells[0]["accuracy"] = None
    (run / "sweep.jsonl").write_text("\n".join(json.dumps(cell) for cell in cells))
    assert main(["report", str(run), "--tensorboard"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output == [f"report: {run}/report.html", f"tensorboard --logdir {run}/tensorboard"]
    page = (run / "report.html").read_text()
    assert drawn(page) == list(FIGURES)
    assert set(sections(page)) - set(FIGURES) == {"results", "unusual", "settings"}
    for name in FIGURES:
        assert (run / f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (run / f"figures/{name}.pdf").read_bytes().startswith(b"%PDF")
    final = results(run)[-1]
    assert f"{final['accuracy']:.1f} %" in page
    assert "Selected: epoch 2 (last epoch)" in page
    assert "1 of 4 cells failed" in page
    for name in ("AVG-ENS", "BN re-estimated", "uniform weights", "ATEN", "source dawn"):
        assert f">{name}" in page
    assert "mindspore 2." in page
    assert 'class="note"' not in page


def test_no_request_leaves_the_page(run):
    page = report(run)
    assert outside(page) == []
    assert "<script" not in page
    assert "default-src &#x27;none&#x27;" in page
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_names_from_files_are_escaped(run):
    names = [f"{HOSTILE}{i}" for i in range(1000)]
    rename(run, names, [f"{HOSTILE} class {c}" for c in range(7)])
    page = report(run)
    assert "<script" not in page
    assert "<img" not in page
    assert outside(page) == []
    shown = [html.unescape(t) for t in re.findall(r"<td>(.*?)</td>", page)]
    assert any(f"{HOSTILE} class" in text for text in shown)
    assert "confusion" in drawn(page)


NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><b>",
    "</title><i>",
    "' onload='x",
    "\u202egnp.exe\u2066",
    "&lt;u&gt;",
)


class Elements(HTMLParser):
    """The names of all elements and attributes of a page, and its text."""

    def __init__(self, page):
        super().__init__()
        self.names, self.text = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.names |= {tag, *(f"{tag} {name}" for name, _ in attributes)}

    def handle_data(self, data):
        self.text.append(data)


def test_no_element_comes_from_a_name(run):
    """Classes, samples, sources, the target and baselines may have any name."""
    before = Elements(report(run)).names
    rename(run, [f"{NAMES[i % 7]}/{i}" for i in range(1000)], NAMES)
    with (run / "predictions.csv").open(newline="") as file:
        heads, *rows = csv.reader(file)
    with (run / "predictions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*heads[:3], *(f"weight_{n}" for n in NAMES[:3])], *rows])
    named = {f"source {name}": 50.0 for name in NAMES}
    rewrite(run, lambda lines: [{**lines[0], "baselines": named}, *lines[1:]])
    settings = (run / "config.yaml").read_text()
    settings = settings.replace("benchmark: debug", "benchmark: own")
    settings = settings.replace("target: night", "target: '\"><img onerror=x>'")
    (run / "config.yaml").write_text(settings)
    found = Elements(report(run))
    assert found.names <= before
    assert "<script>alert(1)" in "".join(found.text)
    assert not set("".join(found.text)) & set("\u202e\u2066")


def test_pictures_where_the_files_are(run, folder):
    names = [f"night/{i:04d}.png" for i in range(1000)]
    rename(run, names, debug_bank("night").classes)
    (folder / "images/night").mkdir(parents=True)
    for name in names[::2]:
        Image.new("RGBA", (90, 60), "#0072b280").save(folder / "images" / name)
    (folder / "images" / names[1]).write_text("no image")
    page = report(run, images=folder / "images")
    assert 1 <= page.count('<img src="data:image/jpeg;base64,') <= 10
    assert outside(page) == []
    (folder / "empty").mkdir()
    assert "No image of the listed samples could be read" in report(run, images=folder / "empty")


def test_an_oracle_is_loudly_marked(run):
    rewrite(run, lambda lines: [*lines[:-1], {**lines[-1], "rule": "oracle", "oracle": True}])
    assert '<p class="oracle">Selected: epoch 2 (ORACLE:' in report(run)


def test_a_half_written_run(run):
    rewrite(run, lambda lines: lines[:2])
    (run / "predictions.csv").unlink()
    page = report(run)
    assert "This run is not finished: its results reach epoch 1 of 2." in page
    assert f"Go on with: ms-biaten train --resume {run}" in page
    assert drawn(page) == ["convergence", "domain-weights"]
    shutil.rmtree(run / "controls")
    for count in (1, 0):
        rewrite(run, lambda lines, count=count: lines[:count])
        page = report(run)
        assert "its results reach epoch 0 of 2" in page
        assert drawn(page) == []


def test_a_run_without_labels(run):
    use_bank(run, dataclasses.replace(debug_bank("night"), labels=None))
    secret = ("accuracy", "class_accuracy", "label_accuracy")

    def forget(lines):
        kept = [{k: v for k, v in line.items() if k not in secret} for line in lines]
        return [{**kept[0], "baselines": {}}, *kept[1:]]

    for place in (run, *(run / "controls").iterdir()):
        rewrite(place, forget)
    page = report(run)
    assert drawn(page) == ["convergence", "domain-weights", "class-weights", "intra-weights"]
    assert "The target has no labels" in page
    assert "by predicted class (labels are not at hand)" in page
    assert "SND" in page
    assert " %</b>" not in page


def test_a_bank_that_is_gone_or_another(run):
    use_bank(run, debug_bank("night"))
    assert "confusion" in drawn(report(run))
    shutil.rmtree(run.parent / "bank")
    page = report(run)
    assert "bank cannot be opened" in page
    assert "no feature bank at bank" in page
    assert drawn(page) == ["convergence", "domain-weights", "class-weights", "intra-weights"]
    save_bank(run.parent / "bank", debug_bank("dusk"))
    assert "bank is not the one that was run" in report(run)


def test_methods_that_train_nothing_or_weigh_alike(run):
    for method in ("bn_only", "uniform"):
        shutil.rmtree(run.parent / "alone", ignore_errors=True)
        page = report(shutil.copytree(run / "controls" / method, run.parent / "alone"))
        assert "intra-weights" not in sections(page)
        assert "Every class weighs the sources alike" in page
        assert "Every sample weighs the sources alike." in page
        assert ("It trains nothing." in page) == (method == "bn_only")


def test_a_broken_control_is_left_out(run):
    (run / "controls/aten/results.jsonl").write_text("{")
    page = report(run)
    assert "A control is left out." in page
    assert "uniform weights" in page


def test_many_classes_stay_readable(run):
    bank = debug_bank("night")
    rng = np.random.default_rng(0)
    names = tuple(f"a rather long class name {c}" for c in range(345))
    labels = rng.integers(0, 345, 1000)
    use_bank(run, dataclasses.replace(bank, classes=names, labels=labels))
    with (run / "predictions.csv").open(newline="") as file:
        heads, *rows = csv.reader(file)
    guesses = rng.integers(0, 345, 1000)
    rows = [[row[0], names[c], *row[2:]] for row, c in zip(rows, guesses, strict=True)]
    with (run / "predictions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([heads, *rows])
    page = report(run)
    assert re.search(r"Shown are the 25 of 3\d\d classes that deviate most", page)
    assert re.search(r"Shown are the 2\d most confused of 345 classes", page)
    assert len(page) < 1e6


@pytest.mark.parametrize(
    ("damage", "arguments", "message"),
    [
        (lambda run: shutil.rmtree(run), [], "run holds no run (config.yaml is missing)"),
        (lambda run: (run / "predictions.csv").write_text("a,b\n"), [], "predictions.csv: expect"),
        (lambda run: (run / "results.jsonl").write_text("x"), [], "not readable as JSON lines"),
        (lambda run: (run / "sweep.jsonl").write_text("{}"), [], "sweep.jsonl: expected JSON li"),
        (lambda run: (run / "sweep.jsonl").write_text(""), [], "holds no line of a sweep"),
        (lambda run: None, ["--sweep", "nowhere"], "--sweep nowhere: no such file"),
        (lambda run: None, ["--images", "nowhere"], "--images nowhere: no such folder"),
        (
            lambda run: None,
            ["--output", "nowhere/page.html"],
            "expected a file in a folder that exists",
        ),
        (lambda run: None, ["--output", "."], "--output .: expected a file"),
    ],
)
def test_a_mistake_is_one_line(run, capsys, damage, arguments, message):
    damage(run)
    assert main(["report", "run", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (run / "report.html").exists()


def test_a_run_ends_with_its_report(run, capsys, monkeypatch):
    """And does not fail where the report cannot be written."""
    again = ["train", "--resume", "run"]
    assert main(again) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "report: run/report.html"
    assert (run / "report.html").is_file()
    assert not (run / "figures").exists()  # those are for `report`
    monkeypatch.setattr("ms_biaten.spec.report.page.inline_svg", lambda *_: 1 / 0)
    assert main(again) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "report: not written (ZeroDivisionError: division by zero)"


def events(path):
    """The scalars of a TensorBoard file: (name, epoch, value)."""
    from tensorboardX.proto.event_pb2 import Event

    content, found = path.read_bytes(), []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        event = Event.FromString(content[12 : 12 + length])
        found += [(v.tag, event.step, v.simple_value) for v in event.summary.value]
        content = content[16 + length :]
    return found


def test_scalars_for_tensorboard(run):
    for _ in range(2):  # a second time replaces the first
        write_scalars(run)
    (path,) = (run / "tensorboard").iterdir()
    found = {(name, epoch): value for name, epoch, value in events(path)}
    for line in results(run)[:-1]:
        for name in ("accuracy", "snd", "im", "entropy"):
            assert found[name, line["epoch"]] == pytest.approx(line[name])
    assert ("loss", 2) in found


def test_tensorboard_that_is_not_installed_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(UserError, match=r"pip install 'ms_biaten\[tensorboard\]'"):
        write_scalars(run)


def test_calibration_error_by_hand():
    confidence = np.array([0.1, 0.5, 0.9, 1.0])
    found = measures.reliability(confidence, np.array([False, True, True, False]), bins=2)
    assert found.counts.tolist() == [2, 2]
    assert found.confidence == pytest.approx([0.3, 0.95])
    assert found.accuracy == pytest.approx([0.5, 0.5])
    assert found.ece == pytest.approx(0.5 * 0.2 + 0.5 * 0.45)


def test_class_deviations_by_hand():
    beta = np.array([[0.2, 0.8], [0.4, 0.6], [0.9, 0.1]])  # the mean is 0.5, 0.5
    found = measures.class_deviations(beta, np.array([0, 0, 2]), 3)
    assert found[:, [0, 2]] == pytest.approx(np.array([[-0.2, 0.4], [0.2, -0.4]]))
    assert np.isnan(found[:, 1]).all()
    assert measures.most_deviating(found, 1).tolist() == [2]
    assert measures.most_deviating(found, 9).tolist() == [0, 2]


def test_confusions_by_hand():
    counts = measures.confusion(np.array([0, 0, 0, 1, 2]), np.array([1, 1, 0, 1, 0]), 3)
    assert counts.tolist() == [[1, 2, 0], [0, 1, 0], [1, 0, 0]]
    assert measures.confused_pairs(counts, 9) == [(0, 1), (2, 0)]
    assert measures.classes_of_pairs(counts, 2).tolist() == [0, 1]


def test_unusual_samples_by_hand():
    beta = np.array([[0.5, 0.5], [0.9, 0.1], [0.4, 0.6]])
    assert measures.most_unusual(beta, 2).tolist() == [1, 2]


def test_a_sweep_averages_and_keeps_failures():
    cells = [(1, 0.1, 60), (1, 0.1, 70), (0, 0.1, 50), (0, 1, None)]
    found = sweep_map({"lambda_intra": x, "gamma": y, "accuracy": value} for x, y, value in cells)
    assert (found.lambdas, found.gammas) == ([0, 1], [0.1, 1])
    assert found.accuracy[:, 0].tolist() == [50, 65]
    assert found.failed.tolist() == [[False, True], [False, False]]  # never run is not failed


def test_a_sweep_is_read_from_an_experiments_record(tmp_path):
    """Lines of other experiments, targets and profiles share the file."""

    def line(target, lam, gamma, **end):
        swept = {"loss.lambda_intra": lam, "loss.gamma": gamma}
        return {"target": target, "profile": "paper", "overrides": swept, **end}

    lines = [
        line("night", 1.0, 0.1, accuracy=60.0),
        line("night", 2.0, 0.1, failed="the loss became nan"),
        line("dawn", 1.0, 0.1, accuracy=10.0),
        {"target": "night", "profile": "paper", "overrides": {}, "accuracy": 11.0},
    ]
    path = tmp_path / "record.jsonl"
    path.write_text("\n".join(json.dumps(x) for x in lines))
    found = read_sweep(path, load_config("debug"))
    assert (found.lambdas, found.gammas) == ([1.0, 2.0], [0.1])
    assert found.accuracy[0, 0] == 60.0
    assert found.failed.tolist() == [[False], [True]]


def test_labels_are_spread_without_changing_their_order():
    assert drawing.spread([1, 5, 9], 1) == [1, 5, 9]
    assert drawing.spread([2, 1, 2], 1) == pytest.approx([5 / 3, 2 / 3, 8 / 3])
