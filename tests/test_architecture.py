"""The rooms keep their doors: who imports whom, mirrored outlines, every equation in its place."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from ms_biaten.spec.equations import EQUATIONS

ROOT = Path(__file__).resolve().parents[1]
SPEC = sorted((ROOT / "ms_biaten/spec").rglob("*.py"))
OURS = sorted((ROOT / "ms_biaten").rglob("*.py"))
MIRROR = sorted((ROOT / "torch_ref").rglob("*.py"))
EMOJI = sorted((ROOT / "torch_ref/emoji").glob("*.py"))
MIRRORED = ("heads", "attention", "quick", "losses", "pseudo_label", "engine", "adapt")
COMMANDS = ("pretrain", "extract", "export")
METHODS = [
    f"methods/{n}"
    for n in ("weights", "clustering", "losses", "plugged", "decision", "caida", "date", "shot")
]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


def test_spec_imports_no_framework_and_nothing_of_ours():
    for path in SPEC:
        for name in imports(path):
            top = name.split(".")[0]
            assert top not in ("mindspore", "torch", "timm", "torch_ref"), (path, name)
            if top == "ms_biaten":
                assert name == "ms_biaten" or name.startswith("ms_biaten.spec"), (path, name)


def test_ms_biaten_never_imports_torch():
    for path in OURS:
        tops = {name.split(".")[0] for name in imports(path)}
        assert not tops & {"torch", "torchvision", "timm", "torch_ref"}, path


def test_torch_ref_imports_only_the_spec():
    for path in MIRROR:
        for name in imports(path):
            assert not name.startswith("mindspore"), (path, name)
            if name.startswith("ms_biaten"):
                assert name.startswith("ms_biaten.spec"), (path, name)


def test_pickles_are_read_in_one_place_and_only_as_weights():
    loads = [
        (path.name, {word.arg: ast.unparse(word.value) for word in node.keywords})
        for path in MIRROR
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"
    ]
    assert [name for name, _ in loads] == ["checkpoints.py"]
    assert loads[0][1]["weights_only"] == "True"
    assert not any("pickle" in imports(path) for path in MIRROR)


def test_emoji_images_need_no_framework():
    ours = {"ms_biaten", "torch_ref", "PIL", "resvg_py", "tqdm", "__future__"}
    for path in EMOJI:
        for name in imports(path):
            assert name.split(".")[0] in ours | sys.stdlib_module_names, (path, name)
            if name.startswith("torch_ref"):
                assert name.startswith("torch_ref.emoji"), (path, name)


def test_help_imports_no_framework():
    code = (
        "import sys, ms_biaten.cli\n"
        "try: ms_biaten.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'mindspore', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def outline(path):
    """Names, order and arguments of everything defined at the top, methods included."""
    rows = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            rows.append((node.name, [a.arg for a in node.args.args]))
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    name = {"forward": "construct"}.get(part.name, part.name)
                    rows.append((f"{node.name}.{name}", [a.arg for a in part.args.args]))
        elif isinstance(node, ast.Assign):
            rows.append((node.targets[0].id, []))
    return rows


# The compiled functions that MindSpore needs and PyTorch writes as methods; PyTorch's own names for
# an optimiser's state, and the packages that its export needs.
ONE_SIDED = {
    "forward_of",
    "objective_of",
    "update_of",
    "Engine.update",
    "MOMENTS",
    "needed",
    "own_products",
    "own_places",
    "own_places_of",
    "in_parts",
    "in_parts_of",
    "TOGETHER",
    "most_together",
    "divisor",
    "resized",
    "TURNED",
    "PRODUCT",
    "ROW_BY_ROW",
    "BATCHED_ROW_BY_ROW",
    "BATCHED_COLUMN_BY_COLUMN",
    "full",
    "ones",
    "row",
    "by_loss",
    "spread_row",
    "diagonal",
    "BATCHED_COLUMN_BY_ROW",
    "COSINES",
    "row_sums",
    "spread",
    "squared_lengths",
    "with_one",
    "same_head",
    "by_head",
    "Engine.settle",
    "KeyedCosines.construct",
    "KeyedCosines.backward",
    "Cosines.construct",
    "Cosines.bprop",
    "Cosines.backward",
    "SOFTMAX_THEN_MEAN",
    "SoftmaxThenMean.construct",
    "SoftmaxThenMean.bprop",
    "CROSS_ENTROPY",
    "CrossEntropy.construct",
    "CrossEntropy.bprop",
    "batch_means",
    "im_terms",
    "im_gradient",
    "wanted_terms",
    "smoothed",
    "LOSSES",
    "Losses.construct",
    "Losses.bprop",
    "INFORMATION_MAXIMISATION",
    "InformationMaximisation.construct",
    "InformationMaximisation.bprop",
    "InformationMaximisation.backward",
    "filled",
}


@pytest.mark.parametrize("module", [*MIRRORED, *METHODS, *COMMANDS])
def test_the_mirror_has_the_same_outline(module):
    ours, theirs = (
        [row for row in outline(ROOT / package / f"{module}.py") if row[0] not in ONE_SIDED]
        for package in ("ms_biaten", "torch_ref")
    )
    assert ours == theirs


@pytest.mark.parametrize("package", ["ms_biaten", "torch_ref"])
def test_each_equation_stands_once(package):
    assert sorted(EQUATIONS) == list(range(1, 18))
    found = {}
    for module in MIRRORED:
        tree = ast.parse((ROOT / package / f"{module}.py").read_text())
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                text = ast.get_docstring(node) or ""
                if text.startswith("Eq. ("):
                    number = int(text[len("Eq. (") : text.index(")")])
                    assert number not in found, f"Eq. ({number}) twice"
                    found[number] = (module, node.name)
    assert found == {number: entry[:2] for number, entry in EQUATIONS.items()}


@pytest.mark.parametrize("package", ["ms_biaten", "torch_ref"])
def test_attention_has_no_loop_and_no_einsum(package):
    tree = ast.parse((ROOT / package / "attention.py").read_text())
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.For, ast.While)), f"line {node.lineno}"
        if isinstance(node, ast.Attribute):
            assert node.attr != "einsum", f"line {node.lineno}"


def test_the_package_says_its_version():
    import ms_biaten

    assert importlib.import_module("ms_biaten.cli")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {ms_biaten.__version__}" in changelog
