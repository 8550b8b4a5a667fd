"""Tables of the report, and their CSV, LaTeX, HTML and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from math import inf, isfinite
from pathlib import Path

import pandas as pd
from pandas.api.types import is_numeric_dtype
from pandas.io.formats.style import Styler

from constrained_dnc import published
from constrained_dnc.files import make_folder, write_atomically

Number = float | int
DASH = "\u2013"
BOLD, ITALIC = "font-weight: bold;", "font-style: italic;"


@dataclass(frozen=True)
class Table:
    """Formatted `cells` with their `css`, and the plain values behind them in `data`."""

    name: str
    title: str
    caption: str
    cells: pd.DataFrame
    css: pd.DataFrame = field(default_factory=pd.DataFrame)
    data: pd.DataFrame = field(default_factory=pd.DataFrame)

    def write(self, directory: Path) -> None:
        """Write the CSV and LaTeX files."""
        make_folder(directory)
        data = self.cells.reset_index() if self.data.empty else self.data
        csv = data.to_csv(index=False, lineterminator="\n")
        write_atomically(directory / f"{self.name}.csv", csv.encode())
        write_atomically(directory / f"{self.name}.tex", self.to_latex().encode())

    def to_html(self) -> str:
        """A table element in which every name is escaped."""
        return self._style("html").to_html(table_attributes='class="data"', table_uuid=self.name)

    def to_latex(self) -> str:
        """A tabular that needs the packages booktabs and multirow."""
        columns = "l" * self.cells.index.nlevels + "r" * self.cells.shape[1]
        tabular = self._style("latex").to_latex(
            convert_css=True, hrules=True, column_format=columns, multirow_align="t"
        )
        return f"% {self.title}. {' '.join(self.caption.split())}\n{tabular}"

    def to_markdown(self) -> str:
        """A table for a Markdown page."""
        heads = [*[""] * self.cells.index.nlevels, *map(str, self.cells.columns)]
        rows = self.cells.set_axis(heads[self.cells.index.nlevels :], axis=1).reset_index()
        lines = [heads, ["---"] * len(heads), *rows.to_numpy().tolist()]
        return "\n".join("|".join(("", *(f" {text} " for text in line), "")) for line in lines)

    def _style(self, escape: str) -> Styler:
        style = self.cells.style.format(escape=escape).hide(names=True)
        for axis in (0, 1):
            style = style.format_index(str, escape=escape, axis=axis)
        return style if self.css.empty else style.apply(lambda _: self.css, axis=None)


def make_table(
    name: str,
    title: str,
    caption: str,
    frame: pd.DataFrame,
    rows: Sequence[str],
    column: str,
    order: Sequence[str] = (),
) -> Table:
    """A table from one line per cell, with its `text` and, if some are marked, its `css`.

    Numbers are sorted; names come in `order`, others after them as they appear.
    """
    frame = frame if "css" in frame else frame.assign(css="")
    for label in (*rows, column):
        if not is_numeric_dtype(frame[label]):
            names = list(dict.fromkeys([*order, *frame[label]]))
            labels = pd.Categorical(frame[label], names, ordered=True).remove_unused_categories()
            frame = frame.assign(**{label: labels})
    frame = frame.sort_values([*rows, column], kind="stable")
    cells, css = (
        frame.pivot(index=list(rows), columns=column, values=part).fillna(blank)
        for part, blank in (("text", DASH), ("css", ""))
    )
    cells.columns = css.columns = pd.Index(cells.columns.tolist(), dtype=object)
    data = frame.drop(columns=["text", "css"]).dropna(axis="columns", how="all")
    return Table(name, title, caption, cells, css, data)


def is_largest(frame: pd.DataFrame, by: Sequence[str], value: str) -> pd.Series:
    """Whether a value is the largest of the paper's approaches in its group, and above 0."""
    of_paper = frame["approach"].isin(published.APPROACHES)
    values = frame[value].astype(float).where(of_paper)
    best = values.groupby([frame[label] for label in by]).transform("max")
    return (values == best) & (best > 0)


def rounded(value: Number | None, digits: int) -> str:
    """A number rounded half up, as in the paper's tables; a dash for no value.

    >>> rounded(46 / 40, 1), rounded(-0.004, 2)
    ('1.2', '0.00')
    """
    if value is None or not isfinite(value):
        return DASH
    text = str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return text.removeprefix("-") if float(text) == 0 else text


def state_count_text(count: float) -> str:
    """
    >>> state_count_text(8.0), state_count_text(float("inf"))
    ('8', '>4096')
    """
    return ">4096" if count == inf else rounded(count, 0)


def percent(share: float) -> str:
    """A share in percent, rounded.

    >>> percent(0.9495)
    '95'
    """
    return rounded(100 * share, 0)
