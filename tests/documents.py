"""The documents as data: their blocks, commands, examples, links, headings and tables."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

PAGES = ("README.md", "README_CN.md", "CONTRIBUTING.md")
DOCUMENTS = [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = ""  # a block without a language holds commands, and nothing else
PLAIN = ("text", "ini", "json", "yaml")  # output, and files that commands read
ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
SCRIPT = re.compile(r"^python (ms_biaten|torch_ref)/(\w+)\.py")
PROGRAMS = {"ms_biaten": "ms-biaten", "torch_ref": "python -m torch_ref"}


@dataclass(frozen=True)
class Block:
    document: str
    language: str
    text: str


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def blocks(document: Path) -> list[Block]:
    name = document.relative_to(ROOT).as_posix()
    found = re.findall(r"^```(\w*)\n(.*?)^```", text_of(document), flags=re.MULTILINE | re.DOTALL)
    return [Block(name, language, text) for language, text in found]


def prose(document: Path) -> str:
    """Without its blocks."""
    return re.sub(r"^```.*?^```", "", text_of(document), flags=re.MULTILINE | re.DOTALL)


def commands_of(text: str) -> list[str]:
    """One a line; a backslash goes on with it, `#` begins a remark."""
    lines = (re.sub(r"(^|\s)#.*", "", line) for line in text.replace("\\\n", " ").splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def canonical(command: str) -> str:
    """One spelling of what is the same: a script and its command, without variables before it."""
    words = command.removesuffix("&").split(" ")
    while words and ASSIGNMENT.fullmatch(words[0]):
        words = words[1:]
    plain = " ".join(words).strip()
    return SCRIPT.sub(lambda found: f"{PROGRAMS[found[1]]} {found[2]}", plain)


def documented() -> dict[str, set[str]]:
    """Every command of every block, in its one spelling -> the documents that have it."""
    found: dict[str, set[str]] = {}
    for document in DOCUMENTS:
        for block in blocks(document):
            for command in commands_of(block.text) if block.language == COMMANDS else ():
                found.setdefault(canonical(command), set()).add(block.document)
    return found


def inline_commands() -> dict[str, set[str]]:
    """Commands within sentences: these are read, not run."""
    found: dict[str, set[str]] = {}
    for document in DOCUMENTS:
        for code in re.findall(r"`((?:python|make|ms-biaten|pip) [^`]*)`", prose(document)):
            found.setdefault(canonical(code), set()).add(document.name)
    return found


def links(document: Path) -> list[str]:
    return re.findall(r"\]\(([^)#]+)\)", prose(document))


def headings(document: Path) -> list[str]:
    return re.findall(r"^#+ .*", prose(document), flags=re.MULTILINE)


def tables(document: Path) -> list[list[str]]:
    """Each as its lines."""
    found = re.findall(r"(?:^\|.*\n)+", prose(document), flags=re.MULTILINE)
    return [table.splitlines() for table in found]
