"""Damage to arrays on file that keeps the container whole: headers, types, shapes, numbers."""

import binascii
import io
import json
import struct

import numpy as np
from safetensors.numpy import load, save

from benchmarks.fuzz.mutators import damaged
from benchmarks.fuzz.trees import damaged_json, damaged_tree

KINDS = ("float64", "float16", "int64", "uint8", "bool", "int32", "uint64")
FILLS = (np.nan, np.inf, -np.inf, 1e300, 0.0, -1.0, 1e38)


def damaged_safetensors(rng, content):
    kind = rng.random()
    if kind < 0.3:
        return damaged(rng, content)
    size = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    if kind < 0.5:
        return packed(damaged_tree(rng, header), data, rng)
    if kind < 0.7 and "__metadata__" in header:
        said = header["__metadata__"]
        key = rng.choice(list(said))
        said[key] = damaged_text(rng, said[key])
        return packed(header, data, rng)
    if kind < 0.78:
        return packed(retyped(rng, header), data, rng)
    arrays = load(content)
    return save(damaged_arrays(rng, arrays), metadata=header.get("__metadata__"))


def packed(header, data, rng):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    size = len(text) if rng.random() < 0.9 else rng.choice((0, 2**40, 2**64 - 1, len(text) - 1))
    return struct.pack("<Q", size) + text + data


def damaged_text(rng, text):
    """JSON inside the metadata, damaged as JSON."""
    try:
        json.loads(text)
    except ValueError:
        return rng.choice(("", "2", "{}", "[]", "null", "\x1b[2J", "x" * 5000))
    return damaged_json(rng, text.encode()).decode("utf-8", "replace")


def retyped(rng, header):
    """The same bytes as numbers of another kind."""
    names = [name for name in header if name != "__metadata__"]
    entry = header[rng.choice(names)]
    entry["dtype"] = rng.choice(
        ("BF16", "F8_E4M3", "F8_E5M2", "I64", "BOOL", "U8", "F64", "C64", "X")
    )
    per = {"BF16": 2, "I64": 8, "F64": 8, "C64": 8}.get(entry["dtype"], 1)
    entry["shape"] = [(entry["data_offsets"][1] - entry["data_offsets"][0]) // per]
    return header


def damaged_arrays(rng, arrays):
    arrays = dict(arrays)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(arrays))
        arrays[rng.choice((name, name, name, name + "x", "", "x\ny", "momentum.x"))] = odd(
            rng, arrays[name]
        )
        if rng.random() < 0.2 and len(arrays) > 1:
            del arrays[rng.choice(list(arrays))]
    return arrays


def odd(rng, array):
    """An array that is almost the one that was there."""
    change = rng.choice(("type", "fill", "shape", "cut", "empty", "scalar"))
    if change == "type":
        return array.astype(rng.choice(KINDS))
    if change == "fill":
        made = array.astype(rng.choice(("float64", str(array.dtype))))
        with np.errstate(all="ignore"):
            made.reshape(-1)[: rng.choice((1, made.size))] = np.array(
                rng.choice(FILLS), "float64"
            ).astype(made.dtype)
        return made
    if change == "shape":
        return array.reshape(rng.choice(([-1], [*array.shape, 1], [1, *array.shape])))
    if change == "cut":
        return np.ascontiguousarray(array[: len(array) // 2]) if array.ndim else array
    return np.zeros((0, 4), array.dtype) if change == "empty" else np.array(1, array.dtype)


def damaged_npy(rng, content):
    kind = rng.random()
    if kind < 0.3:
        return damaged(rng, content)
    array = np.load(io.BytesIO(content))
    if kind < 0.6:
        return stored(odd(rng, array))
    if kind < 0.7:
        made = rng.choice(
            (
                np.asfortranarray(array),
                array.astype(">f4"),
                array.astype("f2,f4"),
                array.astype("U4"),
                array.astype("complex64"),
                array.astype("M8[s]") if rng.random() < 0.5 else array.astype("longdouble"),
            )
        )
        return stored(made)
    if kind < 0.75:
        return hostile_pickle_array()
    if kind < 0.8:
        buffer = io.BytesIO()
        np.savez(buffer, a=array)
        return buffer.getvalue()
    return headed(rng, content, array)


def stored(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def hostile_pickle_array():
    from benchmarks.fuzz.pickles import Hostile

    holder = np.empty(1, object)
    holder[0] = Hostile()
    return stored(holder)


def headed(rng, content, array):
    """A header of our own before the same numbers."""
    big = rng.choice((2**31, 2**62, 2**63, 10**30, -1, -(2**40)))
    header = rng.choice(
        (
            {"descr": "<f4", "fortran_order": False, "shape": (big, *array.shape[1:])},
            {"descr": "<f4", "fortran_order": False, "shape": (*array.shape[:2], big)},
            {"descr": "|O", "fortran_order": False, "shape": array.shape},
            {"descr": "<f4", "fortran_order": True, "shape": array.shape},
            {"descr": "<f4", "fortran_order": "no", "shape": array.shape},
            {"descr": "<f4", "fortran_order": False, "shape": (0, *array.shape[1:])},
            {"descr": "<f4", "fortran_order": False, "shape": "x"},
            {"descr": ("x", "y"), "fortran_order": False, "shape": array.shape},
            {"descr": [("a", "<f4")] * 2, "fortran_order": False, "shape": array.shape},
            {"shape": array.shape},
            "__import__('os').system('touch executed')",
            "(" * 2000,
            "{'descr': " + "[" * 500,
            "9" * 9000,
            "'" + "x" * 60000,
        )
    )
    text = (header if isinstance(header, str) else repr(header)).encode() + b"\n"
    version = rng.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    size = struct.pack("<H" if version[0] == 1 else "<I", min(len(text), 65535))
    return b"\x93NUMPY" + version + size + text + content[128:]


def damaged_ckpt(rng, content):
    """A checkpoint of MindSpore; its checksum made right again half of the time."""
    mark = content.rindex(b"crc_num")
    if rng.random() < 0.3:
        return damaged(rng, content)
    body = damaged(rng, content[:mark])
    return body + b"crc_num" + binascii.crc32(body).to_bytes(10, "big")
