"""What commands call on each kind of file."""

import functools
from types import SimpleNamespace

import numpy as np

from benchmarks.fuzz import scenes
from ms_biaten.spec import adapted, console, selection
from ms_biaten.spec.algorithm import check_progress
from ms_biaten.spec.comparing import table_of
from ms_biaten.spec.comparison import compare
from ms_biaten.spec.config import Config
from ms_biaten.spec.described import Description
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.experiments.identity import bank_digest, bank_domains
from ms_biaten.spec.extraction import Partial, finished
from ms_biaten.spec.history import read_history
from ms_biaten.spec.images import BadImageError, Transform, center_view, read_image
from ms_biaten.spec.lists import read_classes, read_list
from ms_biaten.spec.loading import dump, load_config
from ms_biaten.spec.run import RunFolder
from ms_biaten.spec.source_training import resumed
from ms_biaten.spec.target import open_names, open_target
from ms_biaten.spec.weights import stack_sources

IDENTITY = {"lr": "0.01", "images": "0" * 64}
EVERY = 10  # a report takes a second: its pages are written for every tenth case that comes so far


def config(root):
    dump(load_config(str(root / "config.yaml"), target="night"))


def setting(root):
    text = (root / "setting.txt").read_bytes().decode("utf-8", "surrogateescape")
    dump(load_config("debug", target="night", overrides=[text]))


def run_config(root):
    run = root / "run"
    adapted.folder_of(run)
    RunFolder.reopen(run, None)
    selection.by_target([read_history(run)])


def manifest(root):
    bank_domains.cache_clear()
    bank_digest.cache_clear()
    target = open_target(scenes.settings(root))
    bank = target.bank
    console.say(", ".join((*bank.domains, *bank.classes, *bank.samples)))
    survey = SimpleNamespace(
        beta=np.zeros((len(bank), len(bank.domains))),
        predicted=np.zeros(len(bank), int),
        confidence=np.zeros(len(bank)),
    )
    RunFolder(root, Config()).write_predictions(bank, survey)
    open_names(scenes.settings(root))
    bank_digest(root / "bank", "center")
    images = ("method=shot", "train.trainable=backbone", f"data.images={root / 'images'}")
    seen = open_target(scenes.settings(root, *images)).bank
    center_view(seen.read(0), seen.transform)
    for domain in target.described.domains:
        if domain in target.described.models:
            target.described.place_of(domain, None)
    try:
        finished(root / "bank", scenes.plan())
    except UserError as error:
        if "holds a bank with other" not in str(error):
            raise


def features(root):
    for placement in ("disk", "host"):
        bank = open_target(scenes.settings(root, f"data.placement={placement}")).bank
        for chunk in bank.chunks(5):
            chunk.sum()
        bank.rows(np.array([3, 0, 7])).sum()


def heads(root):
    from torch_ref import backend

    target = open_target(scenes.settings(root, "method=avg_ens"))
    settings = scenes.settings(root, "method=avg_ens")
    engine = backend.make_engine(settings, target.sizes, stack_sources(target.heads))
    engine.outputs(target.bank.rows(np.arange(4)))


def checkpoint(root, backend):
    run = root / "run"
    opened = adapted.open_run(run, backend, scenes.PLACE, images=False)
    opened.predict(np.zeros((2, 2, scenes.RAW), np.float32))
    with RunFolder.reopen(run, None) as folder:
        _, position = folder.load_checkpoint("best")
        check_progress(folder, position, folder.config.train.epochs)


def checkpoint_torch(root):
    from torch_ref import backend

    checkpoint(root, backend)


def checkpoint_mindspore(root):
    from ms_biaten import backend

    prepared()
    checkpoint(root, backend)


@functools.cache
def prepared():
    from ms_biaten import backend

    backend.prepare(scenes.PLACE)


def results(root):
    run = root / "run"
    selection.select_command(SimpleNamespace(runs=[run]), "", "")
    history = read_history(run)
    console.say(table_of(compare(run, run), 0.0))
    for line in filter(None, (history.start, *history.epochs)):
        if {"ce", "im_loss", "loss"} <= line.keys() or line["kind"] == "start":
            console.say(console.epoch_line(line, history.planned))
    page(root)
    with RunFolder.reopen(run, None) as folder:
        if folder.lines and folder.lines[-1]["kind"] == "final":
            console.say(console.final_table({"bi_aten": folder.lines}, scenes.DOMAINS))


def page(root, sweep=None):
    """The report up to its figures; every few cases whole."""
    from ms_biaten.spec.report import drawing
    from ms_biaten.spec.report.command import write_report
    from ms_biaten.spec.report.page import header
    from ms_biaten.spec.report.sections import all_sections
    from ms_biaten.spec.report.story import read_story
    from ms_biaten.spec.report.sweep import read_sweep

    story = read_story(root / "run", "ms-biaten")
    found = read_sweep(sweep, story.history.config) if sweep else None
    with drawing.style():
        all_sections(story, found, root / "images")
    header(story).encode()
    page.count += 1
    if page.count % EVERY == 1:
        write_report(root / "run", "ms-biaten", root / "page.html", root / "images", sweep)


page.count = 0


def predictions(root):
    page(root)
    compare(root / "run", root / "run")


def stop(root):
    page(root)


def sweep(root):
    page(root, root / "sweep.jsonl")


def record(root):
    from ms_biaten.spec.benchmarks import benchmark
    from ms_biaten.spec.experiments.catalogue import EXPERIMENTS
    from ms_biaten.spec.experiments.grid import cells
    from ms_biaten.spec.experiments.layout import latex_text, markdown_text
    from ms_biaten.spec.experiments.record import Record, by_settings
    from ms_biaten.spec.experiments.results import Results

    read = Record(root / "record.jsonl")
    read.by_key()
    for name in ("controls", "table1", "table2", "convergence"):
        experiment, bench = EXPERIMENTS[name], benchmark("emoji")
        shape = (experiment.rows, ("paper", "official"), bench.domains, 1)
        lines = by_settings(cells(*shape), read.lines)
        tables = experiment.tables(Results(bench, *shape, lines))
        console.say(markdown_text(tables))
        latex_text(tables)


def model(root):
    from torch_ref import backend

    described = Description.of_run(root / "run")
    console.say(", ".join((*described.domains, *described.classes)))
    described.save(root)
    described.check_images(str(root / "run"))
    described.new_backbones(backend)
    try:
        described.open_backbones(backend)
    except UserError as error:
        if "is not known; name the folder" not in str(error) and "no trained source" not in str(
            error
        ):
            raise


def extraction(root):
    partial = Partial(root / "bank", scenes.plan())
    rows = np.arange(partial.done, len(partial.plan.samples))
    partial.put(rows, {"center": np.zeros((len(rows), 2, 6), np.float32)})
    partial.save()


def training(root):
    saved = resumed(scenes.trainer(), root / "ink.state.safetensors", IDENTITY)
    if saved and saved[0]:
        f"{max(line['held_out'] for line in saved[0]):.1f}"


def backbone(root):
    import ms_biaten.backend as ours
    from ms_biaten.backbones.weights import load_weights
    from torch_ref import backend as theirs
    from torch_ref.backbones import load_backbone

    prepared()
    path = root / "ink.backbone.safetensors"
    load_backbone(scenes.thin(theirs), path, "resnet50")
    load_weights(scenes.thin(ours), path)


def pickled(root):
    from ms_biaten.spec.sources import read_heads
    from torch_ref.checkpoints import read_checkpoint

    arrays = read_checkpoint(root / "ink.pth")
    {name: float(np.abs(array).sum()) for name, array in arrays.items()}
    try:
        read_heads([root / "ink.pth"], 8, read_checkpoint)
    except UserError as error:
        if "missing fc.weight_g" not in str(error):
            raise


def ckpt(root):
    from ms_biaten import backend
    from ms_biaten.backbones.weights import load_weights

    prepared()
    load_weights(scenes.thin(backend), root / "ink.ckpt")


def listed(root):
    read = read_list(root / "list.txt", root / "images", scenes.CLASSES)
    for row in range(len(read)):
        if not read.path(row).resolve().is_relative_to((root / "images").resolve()):
            raise AssertionError(f"{read.path(row)} is outside of the root")


def classes(root):
    console.say(", ".join(read_classes(root / "classes.txt")))


def image(root):
    try:
        center_view(read_image(root / "picture.png"), Transform(40, 32))
    except BadImageError as error:
        raise UserError(f"{error}; mend or remove it") from None  # as every command tells it


def package(root):
    from torch_ref.emoji.fetch import read_json

    read_json(root / "package.tgz", "icons.json")
