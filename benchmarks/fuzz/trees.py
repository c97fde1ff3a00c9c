"""Damage to JSON and YAML that stays JSON and YAML: entries dropped, replaced, of another kind."""

import copy
import json

import yaml

from benchmarks.fuzz.mutators import damaged


def nested(depth):
    tree = []
    for _ in range(depth):
        tree = [tree]
    return tree


VALUES = [
    *(None, True, False, -1, 0, 1, 7, 2**31, 2**53, 2**63, -(2**63), 10**400, 0.5, -0.5, 1e308),
    *(float("nan"), float("inf"), "", ".", "..", "../../outside", "/etc", "a/b", "\x00", "a\nb"),
    *(
        "\x1b[2J",
        "\ud800",
        "\udcff",
        "<script>",
        "\u202eabc",
        "x" * 5000,
        "\u00b2",
        "1e999",
        "=1+1",
    ),
    *([], {}, [[]], [None], [1, "a"], {"a": 1}, {"": {}}, nested(50), [0] * 300, [1e999]),
]


def damaged_tree(rng, tree):
    """One or a few entries changed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        spots = list(entries(tree)) if isinstance(tree, (dict, list)) else []
        if not spots:
            return rng.choice(VALUES)
        owner, key = rng.choice(spots)
        change = rng.choice(("drop", "value", "value", "value", "retype", "swap", "copy", "name"))
        if change == "drop":
            del owner[key]
        elif change == "value":
            owner[key] = copy.deepcopy(rng.choice(VALUES))
        elif change == "retype":
            owner[key] = rng.choice((str, lambda v: [v], lambda v: {"x": v}, repr))(owner[key])
        elif change == "swap":
            other, there = rng.choice(spots)
            if there in other if isinstance(other, dict) else there < len(other):
                owner[key] = copy.deepcopy(other[there])
        elif change == "copy" and isinstance(owner, list):
            owner.insert(key, copy.deepcopy(owner[key]))
        elif change == "name" and isinstance(owner, dict):
            owner[rng.choice(("", "x", "..", "\x1b[1m", key * 2))] = owner.pop(key)
    return tree


def entries(tree):
    """(owner, key) of every entry; of a long list the first few."""
    keys = list(tree) if isinstance(tree, dict) else range(min(len(tree), 8))
    for key in keys:
        yield tree, key
        if isinstance(tree[key], (dict, list)):
            yield from entries(tree[key])


def damaged_json(rng, content):
    if rng.random() < 0.3:
        return damaged(rng, content)
    return json.dumps(damaged_tree(rng, json.loads(content))).encode()


def damaged_json_lines(rng, content):
    if rng.random() < 0.3:
        return damaged(rng, content)
    lines = content.splitlines()
    for _ in range(rng.choice((1, 1, 2))):
        row = rng.randrange(len(lines))
        try:
            lines[row] = json.dumps(damaged_tree(rng, json.loads(lines[row]))).encode()
        except ValueError:
            continue
    if rng.random() < 0.2:
        rng.shuffle(lines)
    return b"".join(line + b"\n" for line in lines)


def damaged_yaml(rng, content):
    chance = rng.random()
    if chance < 0.3:
        return damaged(rng, content)
    if chance < 0.4:
        return rng.choice(HOSTILE_YAML)
    tree = damaged_tree(rng, yaml.safe_load(content))
    return yaml.safe_dump(tree, allow_unicode=rng.random() < 0.5).encode("utf-8", "surrogatepass")


LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
MERGES = "b0: &b0 {k: 1}\n" + "".join(
    f"b{i}: &b{i}\n  <<: [{', '.join([f'*b{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
HOSTILE_YAML = [
    text.encode()
    for text in (
        LAUGHS,
        MERGES,
        f"train: {LAUGHS[:0]}&x {{epochs: *x}}",
        "&x [*x]",
        "target: &t night\ndata: {benchmark: *t}",
        "!!python/object/apply:os.system ['touch executed']",
        "target: !!python/object/apply:os.system ['touch executed']",
        "target: !!python/object/new:os.system ['touch executed']",
        "target: !!python/name:os.system",
        "target: !!python/module:os",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "target: !!binary aaaa",
        "target: !!binary a",
        "? [a, b]\n: 1",
        "? {a: 1}\n: 1",
        "{" * 3000,
        "- " * 3000,
        "a: b: c",
        "%YAML 9.9\n---\na: 1",
        "target: night\n---\ntarget: noon",
        "train: {epochs: " + "9" * 5000 + "}",
        "train: {epochs: 0b" + "1" * 5000 + "}",
        "train: {lr: 1e400}",
        "train: {lr: 190:20:30.15}",
        "train: {epochs: 2001-99-99}",
        "x" * 200_000,
        "# " + "x" * 200_000,
        "target: night\n" * 5000,
        "1: 2",
        "null: 2",
        "train: [1]",
        "targets: [night]",
        "targets: {night: 3}",
        "method: {name: [a]}",
        "profile: {name: {}}",
        "data: 5",
        "data: {benchmark: [x]}",
        "target: [x]",
        "target: {a: 1}",
        "attention: {heads: 2000000000, width: 2000000000}",
        "run: {seed: 99999999999999999999999}",
    )
]
