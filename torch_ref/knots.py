"""Pickles that would take hours to read although they are small.

A tuple that holds another twice, which holds another twice, is a few bytes a level, and twice the
work of the level below to whoever hashes it. Honest checkpoints do not use a tuple again.
"""

import pickletools
import zipfile

PUTS = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
GETS = ("GET", "BINGET", "LONG_BINGET")
TUPLES = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
MOST = 16  # tuples used again
PARTS = 5  # pickles one after the other in a file of older releases


def is_knotted(path):
    """Does a pickle of this file use many of its tuples again? Damaged ones are told elsewhere."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if name.endswith(".pkl")]
                return any(reused(archive.open(name), 1) > MOST for name in names)
        with path.open("rb") as file:
            return reused(file, PARTS) > MOST
    except Exception:  # whatever its bytes happen to mean
        return False


def reused(stream, parts):
    """How often tuples are taken from the memo; as far as the stream can be followed."""
    count = 0
    for _ in range(parts):
        tuples, stored, last = set(), 0, ""
        try:
            for opcode, argument, _ in pickletools.genops(stream):
                if opcode.name in PUTS:
                    place = stored if opcode.name == "MEMOIZE" else argument
                    stored += 1
                    (tuples.add if last in TUPLES else tuples.discard)(place)
                else:
                    count += opcode.name in GETS and argument in tuples
                    last = opcode.name
        except Exception:  # what follows the pickles of an older file are plain numbers
            break
    return count
