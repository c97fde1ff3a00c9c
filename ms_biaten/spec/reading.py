"""Files as plain data, whoever wrote them: bounded in size, and a clear line where they are none.

No reader here can be made to run code, and none takes much more memory than the file has bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml
from safetensors import safe_open

from ms_biaten.spec.errors import UserError

MOST_TEXT = 512 << 20  # bytes of a manifest, a list, a record: millions of samples
MOST_YAML = 32 << 10  # a config has a few thousand, and a dense one is read slowly
MOST_BRACKETS = 200

T = TypeVar("T")


def read_bytes(path: Path, what: str, most: int = MOST_TEXT) -> bytes:
    """A small file, whole; a large one is refused before it is read."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise UserError(f"{path}: cannot be read as {what} ({_reason(error)})") from None
    if len(content) > most:
        raise UserError(f"{path}: larger than {most >> 10} KiB, too large for {what}")
    return content


def read_text(path: Path, what: str, most: int = MOST_TEXT) -> str:
    try:
        return read_bytes(path, what, most).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not readable as {what} ({error}); save it as UTF-8") from None


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


# -- JSON --------------------------------------------------------------------------------------


def parse_json(text: str | bytes, where: str, remedy: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: thousands of brackets
        raise UserError(f"{where}: not readable as JSON ({error}); {remedy}") from None


def read_json(path: Path, remedy: str) -> Any:
    return parse_json(read_text(path, "JSON"), str(path), remedy)


def read_json_lines(path: Path, remedy: str) -> list[Any]:
    """One value a line; none where there is no file."""
    if not path.is_file():
        return []
    lines = read_text(path, "JSON lines").splitlines()
    where = f"{path}: not readable as JSON lines: line"
    return [parse_json(line, f"{where} {n}", remedy) for n, line in enumerate(lines, 1)]


# -- YAML --------------------------------------------------------------------------------------


class PlainLoader(yaml.SafeLoader):
    """Plain values without aliases: a few lines of them can stand for billions of values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias (*name): write its value out")
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> int:
        value: int = super().construct_yaml_int(node)
        if abs(value) >= 2**63:  # Python refuses to print those of thousands of digits
            raise yaml.YAMLError("a whole number beyond 64 bits")
        return value


PlainLoader.add_constructor("tag:yaml.org,2002:int", PlainLoader.construct_yaml_int)


def parse_yaml(text: str, where: str) -> Any:
    if len(text) > MOST_YAML:
        raise UserError(f"{where}: longer than {MOST_YAML >> 10} KiB, too long for a setting")
    if text.count("[") + text.count("{") > MOST_BRACKETS:  # PyYAML takes long over nested ones
        raise UserError(f"{where}: more than {MOST_BRACKETS} brackets, too many for a setting")
    try:
        return yaml.load(text, PlainLoader)
    except yaml.YAMLError as error:
        raise UserError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None
    except Exception as error:  # PyYAML raises whatever a badly typed value happens to mean
        raise UserError(f"{where}: not valid YAML ({type(error).__name__})") from None


def read_yaml(path: Path) -> dict[str, Any]:
    tree = parse_yaml(read_text(path, "YAML", MOST_YAML), str(path))
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise UserError(f"{path}: expected 'key: value' lines, found a {type(tree).__name__}")
    return tree


# -- arrays ------------------------------------------------------------------------------------


def map_array(path: Path, remedy: str, mode: Any = "r") -> np.memmap:
    """A `.npy` file in the order of C, mapped: no pickle, and no memory until it is read."""
    open_memmap: Any = np.lib.format.open_memmap  # NumPy leaves it without types
    try:
        array: np.memmap = open_memmap(path, mode)
    except Exception as error:  # a damaged header raises whatever its bytes happen to mean
        raise UserError(f"{path}: not a readable array ({error}); {remedy}") from None
    if not array.flags.c_contiguous:
        raise UserError(f"{path}: stored column by column, expected row by row; {remedy}")
    return array


def read_tensors(path: Path, take: Callable[[Any], T]) -> T:
    """What `take` reads of an open safetensors file."""
    try:
        with safe_open(path, framework="numpy") as file:
            return take(file)
    except Exception as error:  # SafetensorError, TypeError (bfloat16), whatever NumPy raises
        raise UserError(f"{path}: not a readable safetensors file ({error})") from None


def named_arrays(file: Any) -> Iterator[tuple[str, np.ndarray]]:
    for name in file.keys():  # noqa: SIM118
        yield name, file.get_tensor(name)
