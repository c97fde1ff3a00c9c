"""What is installed: the wheel has the configs, and the entry points work."""

import subprocess
import sys
import zipfile

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for name in tracked:  # a copy: building writes build/ and *.egg-info beside setup.py
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--quiet", "-w", folder, source], check=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_carries_the_configs(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in (ROOT / "configs").rglob("*.yaml"):
        assert f"ms_biaten/configs/{path.relative_to(ROOT / 'configs')}" in names
    for package in ("ms_biaten", "torch_ref"):
        modules = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        assert not modules - names
    assert "ms_biaten/spec/class_orders/office_home/lists.txt" in names
    assert "ms_biaten/spec/experiments/paper.yaml" in names
    assert "ms_biaten/spec/report/page.css" in names
    assert "ms_biaten/data/emoji/twemoji/manifest.json" in names
    assert "ms_biaten/data/emoji/twemoji/heads/noto.safetensors" in names
    assert not any("/data/emoji/" in name and "/twemoji/" not in name for name in names)
    assert not any(name.startswith(("tests", "parity_tests", "configs")) for name in names)


def test_the_wheel_installs_both_commands(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
    text = archive.read(name).decode()
    assert "ms-biaten = ms_biaten.cli:main" in text
    assert "ms-biaten-torch = torch_ref.cli:main" in text


def test_an_installed_copy_finds_its_configs(wheel, tmp_path, command):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "from ms_biaten.spec.loading import config_root, load_config\n"
        "print(config_root(), load_config('domainnet').train.batch_size)"
    )
    done = command("-c", code, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert done.stdout.split() == [str(tmp_path / "site/ms_biaten/configs"), "64"], done.stderr


@pytest.mark.parametrize(
    "entry",
    [
        ["ms_biaten/train.py"],
        ["torch_ref/train.py"],
        ["-m", "ms_biaten", "train"],
        ["-m", "torch_ref", "train"],
    ],
)
def test_every_way_to_start(entry, tmp_path, command):
    first = [ROOT / entry[0]] if entry[0].endswith(".py") else entry
    done = command(*first, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "--resume" in done.stdout


def test_the_equations_command_lists_them_all(capsys):
    from ms_biaten.cli import main

    assert main(["equations"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 17
