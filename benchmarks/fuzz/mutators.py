"""Damage to bytes: flips, cuts, copies, and words that mean something to a reader."""

CANARY = "executed"  # a file that appears in the working folder if hostile code ever runs
WORDS = [
    *(b"NaN", b"-Infinity", b"1e999", b"-1", b"null", b"true", b"0x10", b"1_0", b"--5", b"1:2:3"),
    *(b"9" * 5000, b"[" * 20_000, b"{" * 5000, b'{"a":' * 3000, b"- " * 3000, b"x" * 5000),
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[2J", b"\r\n", b"\n", b"\t", b" ", b"\\ud800"),
    *(b"../../outside.png 0", b"/etc/passwd", b"~", b"*a", b"&a [*a, *a]", b"<<: *a", b"---\n"),
    *(b"!!python/object/apply:os.system ['touch executed']", b"!!int ''", b"!!timestamp x"),
    *(
        "a.png \u00b2".encode(),
        "\u0663".encode(),
        "\u202egnp.a".encode(),
        b"!!bool x",
        b"2001-99-99",
    ),
    *(b"PK\x03\x04", b"\x93NUMPY", b"\x89PNG\r\n\x1a\n", b"<svg>", b"%!PS-Adobe-3.0 EPSF-3.0\n"),
]


def damaged(rng, content):
    """One to four kinds of damage, one after the other."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        content = rng.choice(KINDS)(rng, content)
    return content


def flip(rng, content):
    made = bytearray(content)
    for _ in range(min(len(made), rng.choice((1, 1, 4, 32)))):
        made[place(rng, content)] ^= 1 << rng.randrange(8)
    return bytes(made)


def overwrite(rng, content):
    made = bytearray(content)
    for _ in range(min(len(made), rng.choice((1, 2, 8)))):
        made[place(rng, content)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(made)


def insert(rng, content):
    at = rng.randint(0, len(content))
    return content[:at] + rng.randbytes(rng.choice((1, 4, 100))) + content[at:]


def word(rng, content):
    """A word that means something, at the start of what is there."""
    at = place(rng, content) if content else 0
    drop = rng.choice((0, 1, 5))
    return content[:at] + rng.choice(WORDS) + content[at + drop :]


def delete(rng, content):
    at = rng.randint(0, len(content))
    return content[:at] + content[at + rng.choice((1, 2, 8, 100)) :]


def truncate(rng, content):
    return content[: rng.randint(0, len(content))]


def duplicate(rng, content):
    start, stop = sorted(rng.randint(0, len(content)) for _ in range(2))
    return content[:stop] + content[start:stop][:100_000] + content[stop:]


def splice(rng, content):
    """The front of one part behind another."""
    one, other = (rng.randint(0, len(content)) for _ in range(2))
    return content[:one] + content[other:]


def place(rng, content):
    """Headers stand in front and say more than what follows: half of the damage goes there."""
    return rng.randrange(min(len(content), 64) if rng.random() < 0.5 else len(content))


KINDS = (flip, overwrite, insert, word, delete, truncate, duplicate, splice)
