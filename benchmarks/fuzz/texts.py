"""Damage to lists, tables, settings and archives of text."""

import csv
import gzip
import io
import tarfile

from benchmarks.fuzz.mutators import WORDS, damaged
from benchmarks.fuzz.scenes import tarball
from benchmarks.fuzz.trees import HOSTILE_YAML, damaged_json

NAMES = [
    *(
        "../outside",
        "../../outside",
        "/etc/passwd",
        "bar/../../outside",
        "./bar/0.png",
        "bar//0.png",
    ),
    *("bar/0.png\x00.txt", "x" * 300, "a/" * 3000, "~/x.png", "bar", "", ".", "linked/0.png"),
    *(
        "\x1b[2Jbar/0.png",
        "\u202e0.png",
        "bar\\0.png",
        "CON",
        "bar/0.png 0 0",
        "file:///etc/passwd",
    ),
]
LABELS = [
    "\u00b2",
    "9" * 5000,
    "--1",
    "-1",
    "\u0663",
    "1e3",
    "0x1",
    "007",
    "2",
    "99999999999",
    "",
    "-",
]


def damaged_list(rng, content):
    if rng.random() < 0.3:
        return damaged(rng, content)
    lines = content.decode().splitlines()
    for _ in range(rng.choice((1, 1, 2, 5))):
        row = rng.randrange(len(lines))
        name, _, label = lines[row].rpartition(" ")
        name = rng.choice(NAMES) if rng.random() < 0.5 else name
        label = rng.choice(LABELS) if rng.random() < 0.5 else label
        lines[row] = rng.choice((f"{name} {label}", f"{name}\t{label}", name, label))
    return rng.choice(("\n", "\r\n", "\r", "\u2028")).join(lines).encode()


def damaged_classes(rng, content):
    if rng.random() < 0.5:
        return damaged(rng, content)
    lines = content.decode().splitlines()
    lines[rng.randrange(len(lines))] = rng.choice(NAMES + LABELS)
    return "\n".join(lines * rng.choice((1, 1, 2))).encode()


def damaged_setting(rng, content):
    """KEY=VALUE as a command line has it."""
    chance = rng.random()
    if chance < 0.4:
        return damaged(rng, content)
    key = rng.choice(
        (
            "train.lr",
            "train",
            "target",
            "data.benchmark",
            "method",
            "profile",
            "run.seed",
            "a.b.c.d",
        )
    )
    values = WORDS + HOSTILE_YAML
    return rng.choice((key, key + ".x", "." + key, key * 2)).encode() + b"=" + rng.choice(values)


def damaged_table(rng, content):
    if rng.random() < 0.4:
        return damaged(rng, content)
    rows = list(csv.reader(io.StringIO(content.decode())))
    for _ in range(rng.choice((1, 2, 5))):
        row = rows[rng.randrange(len(rows))]
        if not row:
            continue
        place = rng.randrange(len(row))
        change = rng.choice(("cell", "cell", "drop", "more"))
        if change == "cell":
            row[place] = rng.choice([*NAMES, *LABELS, "nan", "inf", "-1", "1e300", "<script>"])
        elif change == "drop":
            del row[place]
        else:
            row.insert(place, "0.5")
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def damaged_tarball(rng, content):
    chance = rng.random()
    if chance < 0.4:
        return damaged(rng, content)
    if chance < 0.6:
        return gzip.compress(damaged(rng, gzip.decompress(content)))
    if chance < 0.8:
        return tarball(damaged_json(rng, b'{"icons": {"a": {"body": "x"}}}'))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo(rng.choice(("../outside", "/outside", "package/../../outside")))
        entry.type = rng.choice(
            (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)
        )
        entry.linkname = "../../outside"
        archive.addfile(entry)
    return buffer.getvalue()
