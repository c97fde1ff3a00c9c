"""A table of texts, as Markdown or as LaTeX (booktabs)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NONE = "–"  # noqa: RUF001  a value that does not exist


@dataclass(frozen=True)
class Table:
    caption: str
    head: Sequence[str]
    groups: Sequence[Sequence[Sequence[str]]]  # rows; LaTeX rules a line between two groups
    notes: Sequence[str] = ()

    @property
    def filled(self) -> list[Sequence[Sequence[str]]]:
        return [group for group in self.groups if group]


def markdown(table: Table) -> str:
    """The table alone, without its notes."""
    rows = [row for group in table.filled for row in group]
    lines = [_line(table.head), "|---" * len(table.head) + "|", *map(_line, rows)]
    return "\n".join(lines)


def _line(row: Iterable[str]) -> str:
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |"


def markdown_text(tables: Iterable[Table]) -> str:
    blocks = [block for table in tables for block in (markdown(table), *table.notes)]
    return "\n\n".join(blocks) + "\n"


LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "λ": r"$\lambda$",
    "γ": r"$\gamma$",  # noqa: RUF001
    "–": "--",  # noqa: RUF001
}


def latex(table: Table) -> str:
    groups = [" \\\\\n".join(map(_latex_row, group)) + " \\\\\n" for group in table.filled]
    body = "\\midrule\n".join(groups)
    notes = "".join(f"\n\n\\smallskip\n{escape(note)}" for note in table.notes)
    return (
        "\\begin{table}[t]\n\\centering\n\\small\n"
        f"\\begin{{tabular}}{{l{'c' * (len(table.head) - 1)}}}\n\\toprule\n"
        f"{_latex_row(table.head)} \\\\\n\\midrule\n{body}\\bottomrule\n\\end{{tabular}}{notes}\n"
        f"\\caption{{{escape(table.caption)}}}\n\\end{{table}}\n"
    )


def _latex_row(row: Iterable[str]) -> str:
    return " & ".join(map(escape, row))


def escape(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)


def latex_text(tables: Iterable[Table]) -> str:
    return "% \\usepackage{booktabs}\n" + "\n".join(map(latex, tables))
