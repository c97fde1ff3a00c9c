"""The emoji images: pinned packages, classes, halves and drawings. No network."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from ms_biaten.spec.errors import UserError
from tests.conftest import ROOT
from torch_ref.emoji import build as building
from torch_ref.emoji import iconify, render
from torch_ref.emoji.__main__ import main
from torch_ref.emoji.classes import CLASSES, codepoint, common, identities
from torch_ref.emoji.fetch import fetch, npm_reason, read_json
from torch_ref.emoji.sets import DOMAINS, SETS, EmojiSet, Package
from torch_ref.emoji.split import split

SQUARE = '<path d="M1 1h6v6H1z" fill="{}"/>'


def archive(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def packed(cache, name, files):
    """A package in the cache, pinned to its own checksum."""
    path = archive(cache / f"{name}-1.0.0.tgz", {f"package/{k}": v for k, v in files.items()})
    return Package(name, "1.0.0", hashlib.sha256(path.read_bytes()).hexdigest())


def entry(name, unified, subcategory):
    return {"short_name": name, "unified": unified, "subcategory": subcategory}


CATALOGUE = [
    entry("cow", "1F42E", "animal-mammal"),
    entry("dog", "1F436", "animal-mammal"),
    entry("feet", "1F43E", "animal-mammal"),
    entry("heart", "2764-FE0F", "heart"),
    entry("blue_heart", "1F499", "heart"),
    entry("love_letter", "1F48C", "heart"),
    entry("wave", "1F44B", "hand-fingers-open"),
    entry("wave-dark", "1F44B-1F3FF", "hand-fingers-open"),
    entry("whale", "1F433", "animal-marine"),
]


# Packages


def test_the_pins_are_complete():
    assert set(DOMAINS) <= set(SETS)
    for chosen in SETS.values():
        assert len(chosen.package.sha256) == 64
        assert not chosen.named_like or not SETS[chosen.named_like].named_like
    assert SETS["noto"].package.tarball == "iconify-json-noto-1.2.9.tgz"


def test_every_domain_is_free_and_attributed():
    notice = (ROOT / "NOTICE").read_text()
    for domain in DOMAINS:
        package, licence = SETS[domain].package, SETS[domain].licence
        assert licence in ("Apache-2.0", "CC-BY-4.0", "MIT"), domain  # none that binds features
        assert f"`{domain}`" in notice
        assert f"{package.name} {package.version}" in notice


def test_a_cached_package_needs_no_npm(tmp_path, monkeypatch):
    package = packed(tmp_path, "tiny", {"a.json": [1]})
    monkeypatch.setenv("PATH", "")
    assert read_json(fetch(package, tmp_path), "a.json") == [1]


def test_a_wrong_checksum_is_refused(tmp_path):
    packed(tmp_path, "tiny", {"a.json": [1]})
    with pytest.raises(UserError, match=r"tiny-1.0.0.tgz: its SHA-256 is .* expected 000.*delete"):
        fetch(Package("tiny", "1.0.0", "0" * 64), tmp_path)


def fake_npm(folder, script):
    folder.mkdir()
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    return str(folder)


def test_a_download_with_a_wrong_checksum_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", fake_npm(tmp_path / "bin", "echo other > tiny-1.0.0.tgz"))
    cache = tmp_path / "cache"
    with pytest.raises(UserError, match="the registry serves another file"):
        fetch(Package("tiny", "1.0.0", "0" * 64), cache)
    assert list(cache.iterdir()) == []


def test_a_download_takes_its_place(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", fake_npm(tmp_path / "bin", "printf x > tiny-1.0.0.tgz"))
    package = Package("tiny", "1.0.0", hashlib.sha256(b"x").hexdigest())
    assert fetch(package, tmp_path / "cache").read_bytes() == b"x"


def test_a_relative_cache_is_fine(tmp_path, monkeypatch):
    """npm runs inside the cache: a destination relative to the caller would be looked for there."""
    package = packed(tmp_path, "tiny", {"a.json": [1]})
    content = tmp_path / package.tarball
    script = (
        'for option; do case "$option" in --pack-destination=*) place=${option#*=};; esac; done\n'
        f'/bin/cp {content} "$place/{package.tarball}"'
    )
    monkeypatch.setenv("PATH", fake_npm(tmp_path / "bin", script))
    monkeypatch.chdir(tmp_path)
    assert read_json(fetch(package, Path("data/cache")), "a.json") == [1]


def test_a_missing_npm_is_one_clear_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert main(["--root", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "npm not found" in error and "install Node.js" in error and "put emoji-data" in error


def test_an_unreachable_registry_is_one_clear_line(tmp_path, monkeypatch):
    script = "echo 'npm error code ENOTFOUND' >&2; echo 'npm error a long story' >&2; exit 1"
    monkeypatch.setenv("PATH", fake_npm(tmp_path / "bin", script))
    with pytest.raises(UserError, match=r"failed \(code ENOTFOUND: a long story\); check the conn"):
        fetch(Package("tiny", "1.0.0", "0" * 64), tmp_path / "cache")
    assert npm_reason("") == "no reason given"


@pytest.mark.parametrize("name", ["../evil", "/evil", "package/../../evil"])
def test_an_archive_that_leads_out_is_refused(tmp_path, name):
    path = archive(tmp_path / "bad.tgz", {"package/a.json": [1], name: b"x"})
    with pytest.raises(UserError, match=r"bad.tgz: '.*evil' leads out of the archive"):
        read_json(path, "a.json")
    assert list(tmp_path.iterdir()) == [path]


def test_a_broken_archive_is_named(tmp_path):
    path = tmp_path / "bad.tgz"
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"bad.tgz: cannot read a.json"):
        read_json(path, "a.json")
    archive(path, {"package/b.json": [1]})
    with pytest.raises(UserError, match=r"bad.tgz: expected package/a.json"):
        read_json(path, "a.json")


# Classes and halves


def test_classes_take_their_subcategories_without_the_exceptions():
    found = {name: codes for name, codes in identities(CATALOGUE).items() if codes}
    assert found == {
        "mammal": {"1f42e": "cow", "1f436": "dog"},
        "hand": {"1f44b": "wave"},  # no skin tones
        "heart": {"1f499": "blue_heart", "2764": "heart"},
    }


def test_classes_do_not_overlap():
    taken = [name for group in CLASSES.values() for name in group.subcategories]
    assert len(taken) == len(set(taken))
    assert len(CLASSES) == 12


def test_only_what_every_domain_has_is_kept():
    kept = common(identities(CATALOGUE), {"1f42e", "1f436", "2764"}, {"1f436", "2764", "1f433"})
    assert {name: codes for name, codes in kept.items() if codes} == {
        "mammal": ["1f436"],
        "heart": ["2764"],
    }


def test_code_points_have_one_spelling():
    assert codepoint("2764-FE0F-200D-1F525") == "2764-200d-1f525"


def test_halves_are_disjoint_stratified_and_complete():
    members = {"a": [f"{n:x}" for n in range(31)], "b": [f"{n:x}" for n in range(100, 140)]}
    halves = split(members)
    for name, codes in members.items():
        source, target = halves.source[name], halves.target[name]
        assert not set(source) & set(target)
        assert sorted(source + target) == sorted(codes)
        assert 0 <= len(source) - len(target) <= 1


def test_halves_are_the_same_everywhere():
    codes = ["1f42e", "1f436", "1f437", "1f43a"]
    assert split({"m": codes}) == split({"m": codes[::-1]})
    # Pinned: another split would make another benchmark.
    assert split({"m": codes}).target == {"m": ["1f437", "1f43a"]}


# Drawings

ICONS = {
    "width": 8,
    "height": 8,
    "icons": {"red": {"body": SQUARE.format("red")}, "tall": {"body": "<g/>", "height": 10}},
    "aliases": {
        "flipped": {"parent": "red", "hFlip": True},
        "twice": {"parent": "flipped", "hFlip": True, "rotate": 1},
        "turned": {"parent": "tall", "rotate": 3},
        "loop": {"parent": "loop"},
        "lost": {"parent": "nobody"},
    },
}


def test_boxes_are_inherited():
    assert iconify.find(ICONS, "red") == iconify.Drawing(SQUARE.format("red"), 0, 0, 8, 8)
    assert iconify.find(ICONS, "tall").height == 10
    assert iconify.find({"icons": {"x": {"body": ""}}}, "x").width == 16


def test_aliases_add_up():
    assert iconify.find(ICONS, "flipped").h_flip
    twice = iconify.find(ICONS, "twice")
    assert (twice.h_flip, twice.quarter_turns) == (False, 1)
    assert iconify.find(ICONS, "loop") is iconify.find(ICONS, "lost") is None


def test_an_svg_is_assembled():
    svg = iconify.to_svg(iconify.find(ICONS, "flipped"), 32)
    assert 'width="32" height="32" viewBox="0 0 8 8"' in svg
    assert '<g transform="translate(8 0) scale(-1 1)"><path' in svg
    # A quarter turn swaps the sides of the box around its centre.
    assert 'viewBox="-1 1 10 8"' in iconify.to_svg(iconify.find(ICONS, "turned"), 32)


def task(path, body, size=16):
    drawing = iconify.Drawing(body, 0, 0, 8, 8)
    return render.Task("tiny, emoji x", iconify.to_svg(drawing, size), path, size)


def test_a_drawing_stands_on_white(tmp_path):
    job = task(tmp_path / "x.png", SQUARE.format("red"))
    assert render.render_all([job], 1) == 1
    image = Image.open(job.path)
    assert (image.size, image.mode) == ((16, 16), "RGB")
    assert image.getpixel((0, 0)) == (255, 255, 255)
    assert image.getpixel((8, 8)) == (255, 0, 0)


def test_a_flip_mirrors_the_drawing(tmp_path):
    left = iconify.Drawing('<path d="M0 0h4v8H0z" fill="blue"/>', 0, 0, 8, 8, h_flip=True)
    render.render(render.Task("", iconify.to_svg(left, 8), tmp_path / "x.png", 8))
    image = Image.open(tmp_path / "x.png")
    assert image.getpixel((1, 4)) == (255, 255, 255)
    assert image.getpixel((6, 4)) == (0, 0, 255)


def test_only_what_is_missing_or_bad_is_drawn_again(tmp_path):
    jobs = [task(tmp_path / f"{n}.png", SQUARE.format("red")) for n in range(3)]
    assert render.render_all(jobs, 1) == 3
    assert render.render_all(jobs, 1) == 0
    whole = jobs[0].path.read_bytes()
    jobs[0].path.write_bytes(whole[: len(whole) // 2])
    jobs[1].path.write_bytes(b"")
    jobs[2] = task(jobs[2].path, SQUARE.format("blue"))  # as if the package had changed
    assert render.render_all(jobs, 1) == 3
    assert jobs[0].path.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.png", "1.png", "2.png"]


@pytest.mark.parametrize("body", ["<path", '<path d="M0 0h1v1z" fill="white"/>'])
def test_a_bad_drawing_is_named_and_leaves_nothing(tmp_path, body):
    with pytest.raises(UserError, match="tiny, emoji x: "):
        render.render_all([task(tmp_path / "x.png", body)], 1)
    assert list(tmp_path.iterdir()) == []


# All of it


@pytest.fixture
def tiny_world(tmp_path, monkeypatch):
    """Two sets; the second knows names only and lacks the dog."""
    cache = tmp_path / "cache"
    cache.mkdir()
    names = {"1f42e": "cow", "1f436": "dog", "2764": "heart", "1f499": "blue-heart"}
    icons = {name: {"body": SQUARE.format("red")} for name in names.values()}
    some = {name: icons[name] for name in ("cow", "heart", "blue-heart")}
    one = packed(cache, "one", {"icons.json": {"icons": icons}, "chars.json": names})
    two = packed(cache, "two", {"icons.json": {"icons": some}, "chars.json": {}})
    monkeypatch.setattr(building, "CATALOGUE", packed(cache, "all", {"emoji.json": CATALOGUE}))
    monkeypatch.setattr(
        building, "SETS", {"one": EmojiSet(one, ""), "two": EmojiSet(two, "", "one")}
    )
    return ["--root", str(tmp_path / "out"), "--cache", str(cache), "--domains", "one,two"]


def test_the_command_makes_images_and_lists(tiny_world, tmp_path, capsys):
    arguments = [*tiny_world, "--size", "16", "--sheet", str(tmp_path / "sheet.png")]
    assert main(arguments) == 0
    assert "6 images" in capsys.readouterr().out
    lines = []
    for half in ("source", "target"):
        lines += (tmp_path / f"out/lists/two_{half}.txt").read_text().splitlines()
    mammal, heart = (list(CLASSES).index(name) for name in ("mammal", "heart"))
    assert sorted(lines) == [
        f"two/heart/1f499.png {heart}",
        f"two/heart/2764.png {heart}",
        f"two/mammal/1f42e.png {mammal}",
    ]
    for line in lines:
        assert (tmp_path / "out" / line.split()[0]).is_file()
    assert (tmp_path / "out/lists/classes.txt").read_text().split() == list(CLASSES)
    assert (tmp_path / "sheet.png").is_file()
    assert main([*arguments, "--processes", "2"]) == 0
    assert "0 of them new" in capsys.readouterr().out


def test_processes_draw_the_same(tiny_world, tmp_path):
    assert main([*tiny_world, "--size", "16", "--processes", "1"]) == 0
    first = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*.png")}
    for path in first:
        path.unlink()
    assert main([*tiny_world, "--size", "16", "--processes", "2"]) == 0
    assert {p: p.read_bytes() for p in (tmp_path / "out").rglob("*.png")} == first


def test_an_unknown_domain_is_named(tmp_path, capsys):
    assert main(["--root", str(tmp_path), "--domains", "notto"]) == 2
    assert "domain 'notto' does not exist; did you mean 'noto'?" in capsys.readouterr().err
