"""What a table of the report is made of, and its files: CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

from constrained_dnc.files import make_folder, write_atomically
from constrained_dnc.report.wording import DASH, MINUS, Number, rounded, signed

LATEX = {letter: "\\" + letter for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "^": r"\^{}",
    "~": r"\~{}",
}


@dataclass(frozen=True)
class Cell:
    """One entry, already worded: ours and, if it has one, the paper's and ours minus it."""

    ours: str
    paper: str = ""
    difference: str = DASH
    note: str = ""
    bold: bool = False
    italic: bool = False
    paper_bold: bool = False


@dataclass(frozen=True)
class Table:
    """A table of the report. `records` hold the same as plain numbers, one per entry."""

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    records: tuple[Mapping[str, object], ...]
    warnings: tuple[str, ...] = field(default=())


def write_tables(tables: Iterable[Table], directory: Path) -> None:
    """Each table as CSV (plain numbers) and LaTeX."""
    make_folder(directory)
    for table in tables:
        write_atomically(directory / f"{table.name}.csv", to_csv(table).encode())
        write_atomically(directory / f"{table.name}.tex", to_latex(table).encode())


def to_csv(table: Table) -> str:
    """One line per entry; an absent value is empty."""
    names = list(dict.fromkeys(name for record in table.records for name in record))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if _absent(value) else value for name, value in record.items()}
        for record in table.records
    )
    return file.getvalue()


def to_latex(table: Table) -> str:
    """A tabular with three lines per row: ours, the paper's, the difference; or ours alone."""
    has_paper = any(cell.paper for _, cells in table.rows for cell in cells)
    lines = [
        *("% " + " ".join(f"{text}".split()) for text in (table.title, table.caption)),
        *("% " + " ".join(warning.split()) for warning in table.warnings),
        r"\begin{tabular}{ll|" + "c" * len(table.columns) + "}",
        r"\hline",
        " & ".join(["", "", *map(_latex, table.columns)]) + r" \\",
        r"\hline",
    ]
    for label, cells in table.rows:
        entries = {
            "ours": [_marked(cell.ours, cell.bold, cell.italic) for cell in cells],
        }
        if has_paper:
            entries["paper"] = [_marked(cell.paper, cell.paper_bold, False) for cell in cells]
            entries["difference"] = [_latex(cell.difference) for cell in cells]
        for name, texts in entries.items():
            head = _latex(label) if name == "ours" else ""
            lines.append(" & ".join([head, name, *texts]) + r" \\")
        lines.append(r"\hline")
    return "\n".join([*lines, r"\end{tabular}", ""])


def worded(ours: Number | None, paper: Number | None, digits: int) -> tuple[str, str, str]:
    """Ours, the paper's and ours minus the paper's, as a cell has them."""
    return (
        rounded(ours, digits),
        rounded(paper, digits),
        signed(difference(ours, paper), digits),
    )


def difference(ours: Number | None, paper: Number | None) -> Number | None:
    """Ours minus the paper's; None where one of them is missing."""
    if ours is None or paper is None or isnan(ours) or isnan(paper):
        return None
    return ours - paper


def largest(values: Iterable[Number]) -> Number:
    """The largest of the values that are there, 0 if none is."""
    return max((value for value in values if not isnan(value)), default=0)


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _marked(text: str, bold: bool, italic: bool) -> str:
    inner = _latex(text)
    if bold:
        return rf"\textbf{{{inner}}}"
    return rf"\textit{{{inner}}}" if italic else inner


def _latex(text: str) -> str:
    escaped = "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))
    return escaped.replace(DASH, "--").replace(MINUS, "$-$").replace("τ", r"$\tau$")
