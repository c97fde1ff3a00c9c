"""The packages that the images are made of, pinned to the byte."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """One version of an npm package; `sha256` is that of its tarball."""

    name: str
    version: str
    sha256: str

    @property
    def tarball(self) -> str:
        """The file name that `npm pack` gives it."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


@dataclass(frozen=True)
class EmojiSet:
    """A vendor's drawings in the Iconify format.

    `named_like` is the set whose code points hold here, too: some packages have names but no table
    of code points, and the sets share their names. `misnamed` are the code points where a name
    means another thing here, found by looking at both sets side by side.
    """

    package: Package
    licence: str
    named_like: str = ""
    misnamed: tuple[str, ...] = ()


def _iconify(name: str, version: str, sha256: str) -> Package:
    return Package(f"@iconify-json/{name}", version, sha256)


# Names, categories and subcategories of all emoji (MIT). Its image sheets are never read.
CATALOGUE = Package(
    "emoji-datasource",
    "16.0.0",
    "2006725061dc0098daa832d65f854a7bec0740af2eb47cb5b23d89f7e2c849f9",
)

SETS = {
    "noto": EmojiSet(
        _iconify(
            "noto", "1.2.9", "3e918d88fc945c0bb3d468dbace6f88caef67f01c9f0e7bcae0915a042e8f1ad"
        ),
        "Apache-2.0",
    ),
    "twemoji": EmojiSet(
        _iconify(
            "twemoji", "1.2.5", "19046dff7d8707ce96212ec86468b36ac5f8e60409629dd13f809265c6d0ebb7"
        ),
        "CC-BY-4.0",
    ),
    "fluent": EmojiSet(
        _iconify(
            "fluent-emoji",
            "1.2.7",
            "8044210dbf11e016d4de85f15d01a243423bd832457e7e2491df1b751c0e272b",
        ),
        "MIT",
        named_like="contrast",
    ),
    "contrast": EmojiSet(
        _iconify(
            "fluent-emoji-high-contrast",
            "1.2.6",
            "0b92d48c90d2200bd499e3cdd09a127ca6a8c8ddefd34c35eb5a1e4994012ae0",
        ),
        "MIT",
    ),
    "monotone": EmojiSet(
        _iconify(
            "emojione-monotone",
            "1.2.1",
            "40b90004bafb406b59266155ef9b7e1dd67bf2947fc8db8d07388776f4d0d04e",
        ),
        "CC-BY-4.0",
        named_like="noto",
        misnamed=("1f997",),  # cricket: the game, not the insect
    ),
    # Not in the benchmark; `--domains` takes them. Features of openmoji might have to be shared
    # under its own licence, fluent_flat and emojione are close to sets that are in already.
    "openmoji": EmojiSet(
        _iconify(
            "openmoji", "1.2.29", "03181e2c156cab35cf4a62f1f7886bd971d59212e75ac3f189d5a4cae3930fc5"
        ),
        "CC-BY-SA-4.0",
    ),
    "fluent_flat": EmojiSet(
        _iconify(
            "fluent-emoji-flat",
            "1.2.6",
            "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175",
        ),
        "MIT",
    ),
    "emojione": EmojiSet(
        _iconify(
            "emojione", "1.2.3", "26a14f44284407e8bcde91799388dca2bfd91dbcd55a97f425524a1c5b73610e"
        ),
        "CC-BY-4.0",
        named_like="noto",
        misnamed=("1f997",),  # cricket: the game, not the insect
    ),
}

DOMAINS = ("noto", "twemoji", "fluent", "contrast", "monotone")
