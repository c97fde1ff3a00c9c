"""Names in tables that people open in a spreadsheet, which takes some of them for formulas."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r")
QUOTE = "'"  # before a cell it says: this is text


def as_cell(name: str) -> str:
    """The name, quoted where it begins like a formula, or with the quote itself."""
    return QUOTE + name if name.startswith((*FORMULA, QUOTE)) else name


def from_cell(text: str) -> str:
    return text[1:] if text.startswith(QUOTE) and text[1:].startswith((*FORMULA, QUOTE)) else text
