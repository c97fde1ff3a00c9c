"""YAML and `--set` to a `Config`: strict names, strict types, one order of precedence.

dataclass defaults < profile < file < targets[target] < method's recipe < command line

A recipe, configs/methods/<name>.yaml, is what a method was published with. A file that names the
method itself stands above its recipe.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.checks import is_text
from ms_biaten.spec.config import Config, MethodName
from ms_biaten.spec.errors import UserError, nearest
from ms_biaten.spec.profiles import PROFILES
from ms_biaten.spec.reading import parse_yaml, read_yaml

Tree = dict[str, Any]
LARGEST = 3.4e38  # of a single-precision number


def config_root() -> Path:
    """The `configs/` of a checkout, or the copy inside the installed package."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "configs", package.parent / "configs"):
        if (folder / "debug.yaml").is_file():
            return folder
    raise UserError(f"no configs/ beside or inside {package}: reinstall ms_biaten")


def find_config(name: str) -> Path:
    """A path as given, or the name of a shipped config: `domainnet`, `configs/domainnet.yaml`."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = config_root() / f"{path.stem}.yaml"
    if shipped.is_file() and path.parent in (Path(), Path("configs")):
        return shipped
    known = [p.stem for p in config_root().glob("*.yaml")]
    raise UserError(f"config '{name}' is not a file; {nearest(path.stem, known)}")


def load_config(
    file: str = "debug",
    *,
    target: str | None = None,
    profile: str | None = None,
    overrides: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> Config:
    """The resolved config of one run: `overrides` are key=value texts, `settings` typed values."""
    path = find_config(file)
    tree = read_yaml(path)
    options = {**(settings or {}), "target": target, "profile.name": profile}
    command_line = dict(_assignment(text) for text in overrides)
    command_line |= {key: value for key, value in options.items() if value is not None}

    targets = _section(tree.pop("targets", {}), f"{path}: targets")
    tree = {key: _named(key, value, str(path)) for key, value in tree.items()}
    command_line = {f"{k}.name" if k in NAMED else k: v for k, v in command_line.items()}
    named = tree.pop("profile", {})
    name = str(command_line.get("profile.name") or named.get("name", "paper"))
    # The target decides which layer of `targets:` applies, so it is settled first.
    bench = benchmark(str(command_line.get("data.benchmark") or _benchmark_name(tree)))
    wanted = str(command_line.get("target") or tree.get("target") or "")
    if not wanted:
        choices = ", ".join(bench.domains) or "a name for your images"
        raise UserError(f"{path}: no target; pass --target: {choices}")
    bench.check_target(wanted)
    for key in targets:
        if not bench.open and key not in bench.domains:
            raise UserError(f"{path}: targets.{key}: {nearest(str(key), bench.domains)}")

    written_for = tree.get("method", {}).get("name", "bi_aten")
    method = str(command_line.get("method.name") or written_for)
    files: list[tuple[str, Any]] = [
        (str(path), {**tree, "profile": {**named, "name": name}}),
        (f"{path}: targets.{wanted}", targets.get(wanted) or {}),
    ]
    recipe = _read_recipe(method)
    layers = [
        (f"profile {name}", {"profile": _read_profile(name)}),
        *([*recipe, *files] if method == written_for else [*files, *recipe]),
        *((f"--set {key}", _nest(key, value)) for key, value in command_line.items()),
    ]
    values = _defaults(Config)
    for where, layer in layers:
        _merge(values, layer, Config, where, "")
    config = _build(Config, values)
    _check(config)
    return config


def from_tree(tree: Mapping[str, Any], where: str) -> Config:
    """A resolved config that a run saved: complete, so no profile or target layer applies."""
    values = _defaults(Config)
    _merge(values, {k: _named(k, v, where) for k, v in tree.items()}, Config, where, "")
    config = _build(Config, values)
    try:
        _check(config)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return config


def to_tree(config: Config) -> Tree:
    return dataclasses.asdict(config)


def dump(config: Config) -> str:
    return yaml.safe_dump(to_tree(config), sort_keys=False)


def differences(one: Config, other: Config, ignore: Iterable[str] = ()) -> list[str]:
    """Dotted names of the settings in which two configs differ."""
    left, right = dict(flatten(to_tree(one))), dict(flatten(to_tree(other)))
    return [k for k in left if left[k] != right[k] and k not in set(ignore)]


# -- reading ----------------------------------------------------------------------------------


def _read_profile(name: str) -> Tree:
    if name not in PROFILES:
        raise UserError(f"profile '{name}' does not exist; {nearest(name, PROFILES)}")
    return {"name": name, **read_yaml(config_root() / "profiles" / f"{name}.yaml")}


def _read_recipe(method: str) -> list[tuple[str, Any]]:
    if method not in get_args(MethodName):
        return []  # no file may be named by what is no method: the strict check names it
    path = config_root() / "methods" / f"{method}.yaml"
    return [(str(path), read_yaml(path))] if path.is_file() else []


NAMED = ("method", "profile")  # sections that may be written as their name alone


def _named(key: str, value: Any, where: str) -> Any:
    if key not in NAMED:
        return value
    return {"name": value} if isinstance(value, str) else _section(value, f"{where}: {key}")


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set {text}: expected key=value, for example train.lr=0.01")
    return key.strip(), parse_yaml(value, f"--set {text}")


def _section(value: Any, where: str) -> Tree:
    if not isinstance(value, dict):
        raise UserError(f"{where}: expected a section of 'key: value' lines, found {value!r}")
    return value


def _benchmark_name(tree: Tree) -> str:
    data = tree.get("data") or {}
    return str(data.get("benchmark", "debug")) if isinstance(data, dict) else "debug"


def _nest(key: str, value: Any) -> Tree:
    first, _, rest = key.partition(".")
    return {first: _nest(rest, value) if rest else value}


def flatten(tree: Tree, prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


# -- merging and typing -----------------------------------------------------------------------


def _defaults(kind: type) -> Tree:
    return dataclasses.asdict(kind())


def _merge(into: Tree, layer: Any, kind: type, where: str, prefix: str) -> None:
    hints = get_type_hints(kind)
    for key, value in _section(layer, f"{where}: {prefix}".rstrip(".: ")).items():
        if key not in hints:
            raise UserError(f"{where}: unknown key '{prefix}{key}'; {nearest(str(key), hints)}")
        if dataclasses.is_dataclass(hints[key]):
            _merge(into[key], value, hints[key], where, f"{prefix}{key}.")
        else:
            into[key] = _coerce(value, hints[key], f"{where}: {prefix}{key}")


def _coerce(value: Any, kind: Any, where: str) -> Any:
    """`value` as `kind`; YAML reads 5e-4 as a string and 1 as an integer, both fine for a float."""
    if get_origin(kind) is Literal:
        options = [str(option) for option in get_args(kind)]
        if value not in options:
            raise UserError(f"{where}: '{value}' is not one of {', '.join(options)}")
        return value
    if kind is float:
        try:
            if isinstance(value, bool):
                raise ValueError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"{where}: expected a number, found {value!r}") from None
        if not math.isfinite(number):
            raise UserError(f"{where}: expected a finite number, found {value!r}")
        if abs(number) > LARGEST:
            raise UserError(f"{where}: {value!r} is too large for single precision")
        return number
    if type(value) is not kind:
        name = {int: "a whole number", bool: "true or false", str: "a text"}[kind]
        raise UserError(f"{where}: expected {name}, found {value!r}")
    return value


def _build(kind: type, values: Tree) -> Any:
    hints = get_type_hints(kind)
    return kind(
        **{
            key: _build(hints[key], value) if dataclasses.is_dataclass(hints[key]) else value
            for key, value in values.items()
        }
    )


POSITIVE = {
    "attention": ("heads", "width", "temperature"),
    "loss": ("epsilon",),
    "train": ("epochs", "batch_size", "lr", "d_alter"),
    "run": ("eval_batch", "image_batch"),
}
NOT_NEGATIVE = {
    "data": ("workers",),
    "model": ("raw_width", "width"),
    "attention": ("init_std",),
    "loss": ("lambda_intra", "gamma", "label_smoothing", "consistency", "diversity"),
    "train": ("momentum", "weight_decay", "clip_norm", "warmup_epochs", "lr_min", "backbone_scale"),
    "run": ("seed", "cpu_threads", "checkpoint_seconds"),
}
END_TO_END = ("shot", "decision", "caida", "date")
BELOW_ONE = {"loss": ("label_smoothing",), "train": ("momentum",)}
WIDEST = 2**20
COUNTED = 2**31  # larger whole numbers are mistakes, and some of them would fill the memory


def _require(config: Config, keys: Mapping[str, Iterable[str]], what: str, test: Any) -> None:
    for section, names in keys.items():
        for name in names:
            value = getattr(getattr(config, section), name)
            if not test(value):
                raise UserError(f"{section}.{name}: must {what}, found {value}")


def _check(config: Config) -> None:
    _require(config, POSITIVE, "be above 0", lambda value: value > 0)
    _require(config, NOT_NEGATIVE, "not be negative", lambda value: value >= 0)
    _require(config, BELOW_ONE, "be below 1", lambda value: value < 1)
    for key, value in flatten(to_tree(config)):
        if type(value) is int and abs(value) >= COUNTED:
            raise UserError(f"{key}: must be below {COUNTED}, found a larger number")
        if type(value) is str and not is_text(value):
            raise UserError(f"{key}: {value!r} is no text that a file could hold")
    if config.attention.heads * config.attention.width > WIDEST:
        raise UserError(f"attention.width: heads times width must be at most {WIDEST}")
    if config.train.batch_size == 1:
        raise UserError("train.batch_size: batch normalisation needs at least 2 samples, found 1")
    if config.train.warmup_epochs >= config.train.epochs:
        raise UserError(
            f"train.warmup_epochs: must be below train.epochs ({config.train.epochs}), "
            f"found {config.train.warmup_epochs}"
        )
    if config.train.trainable == "backbone" and config.method.name not in END_TO_END:
        raise UserError(
            f"train.trainable: backbone is for {', '.join(END_TO_END)} (Eq. 18); "
            f"{config.method.name} keeps backbones frozen (Eq. 17)"
        )
    if config.train.nesterov and config.train.momentum == 0:
        raise UserError("train.nesterov: needs train.momentum above 0")
    benchmark(config.data.benchmark).check_target(config.target)
