"""Tables of the report, and their CSV, LaTeX, HTML and Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain
from math import inf, isfinite
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from pandas.io.formats.style import Styler

from constrained_dnc.evaluation.results import sort_results
from constrained_dnc.files import make_folder, write_atomically
from constrained_dnc.report import published
from constrained_dnc.report.findings import (
    FEW_TRIALS,
    KEY,
    Findings,
    beside_paper,
    memory_name,
)

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


BASELINE, CONSTRAINED, FACTOR = "stateful-baseline", ("compr", "reg", "compr+reg"), "factor"
CONTROLLERS = {
    "stateful-baseline": ("LSTM", "no constraint"),
    "lstm-compr+reg": ("LSTM", "compr+reg"),
    "peephole": ("peephole LSTM", "no constraint"),
    "compr+reg": ("peephole LSTM", "compr+reg"),
}
"""Two controllers times two constraints."""


def with_trials(length: int, each: Sequence[int], low: Number, high: Number) -> str:
    """A maximum length, and those of a few trials or the interval over many.

    >>> with_trials(32, (32, 15, 37), 15, 37), with_trials(32, [32] * 10, 30, 34)
    ('32 (32, 15, 37)', '32 [30, 34]')
    """
    if len(each) == 1:
        return str(length)
    if len(each) <= FEW_TRIALS:
        return f"{length} ({', '.join(map(str, each))})"
    return f"{length} [{low:.0f}, {high:.0f}]"


def lengths_of(findings: Mapping[str, Findings], name: str) -> pd.DataFrame:
    """One line per maximum length of several findings, whose names are in the column `name`."""
    parts = {key: it.lengths for key, it in findings.items() if it.curves}
    frame = pd.concat(parts, names=[name]).reset_index()
    cells = frame[["length", "each", "low", "high"]].itertuples(index=False)
    return frame.assign(text=[with_trials(*cell) for cell in cells])


def max_lengths(rules: Mapping[str, Findings], memory: str) -> Table:
    """Maximum lengths by correct entries and by whole answers, beside the paper's, and factors."""
    main = next(iter(rules.values()))
    ours = lengths_of({**beside_paper(rules), f"{main.selection}, digital": main.digital}, "rule")
    ours = ours[ours["rule"].str.startswith(main.selection) | (ours["measure"] == "entries")]
    ours = ours.assign(measure=ours["rule"] + ", " + ours["measure"])
    lengths = pd.concat([ours.drop(columns="rule"), _paper_lengths(main)])
    parts = [lengths, _factors(lengths, memory, main.trained_memory), _training_scores(main)]
    frame = pd.concat(parts)
    frame = frame[frame["memory"] == memory]
    frame = frame[frame["approach"].isin([*main.approaches, FACTOR])]
    is_bold = is_largest(frame, ["task", "measure"], "length") & ~frame["measure"].str.endswith("%")
    return make_table(
        f"max_length_{memory}",
        f"Maximum lengths, {memory_name(main.study, memory)}",
        "The longest input with at least 95 % correct, by entries (the paper's measure) and by "
        f"whole answers: the median over trials{bracketed(main)}. A length whose floor reaches "
        "95 % does not count; a trial that was given up fails at longer inputs. Factor: the "
        "longest of compr, reg and compr+reg over the stateful baseline with the slots of "
        "training. Bold: the longest of the paper's approaches.",
        frame.assign(css=np.where(is_bold, BOLD, "")),
        ["task", "measure"],
        "approach",
        main.labels,
    )


def lengths_by_rule(rules: Mapping[str, Findings]) -> Table:
    """Maximum lengths with the slots of training by every selection rule, as a robustness check."""
    main = next(iter(rules.values()))
    frame = lengths_of(rules, "rule")
    frame = frame[frame["memory"] == main.trained_memory]
    return make_table(
        "max_length_by_rule",
        "Maximum lengths by selection rule",
        f"With the slots of training{bracketed(main)}; entries: 95 % of the entries correct; "
        "whole: 95 % of the answers. The rule seen selects on training lengths alone.",
        frame.assign(measure=frame["rule"] + ", " + frame["measure"]),
        ["task", "approach"],
        "measure",
        main.labels,
    )


def lengths_by_memory(findings: Findings) -> Table:
    """Maximum lengths of every task and approach, two columns per memory and inference."""
    frame = lengths_of({"": findings, ", digital": findings.digital}, "inference")
    frame = sort_results(frame, ["memory"])
    names = frame["memory"].map(lambda memory: memory_name(findings.study, memory))
    size = findings.study.memory_size
    return make_table(
        "max_length_by_memory",
        "Maximum lengths by memory",
        f"The networks trained with {size} slots, run with other memories{bracketed(findings)}; "
        "entries: 95 % of the entries correct; whole: 95 % of the answers. Growing: "
        f"starts with {size} slots and adds more when they run short.",
        frame.assign(measure=names + frame["inference"] + ", " + frame["measure"]),
        ["task", "approach"],
        "measure",
        findings.labels,
    )


def lengths_by_controller(findings: Findings) -> list[Table]:
    """Maximum lengths of two controllers times two constraints, if more than one was trained."""
    frame = lengths_of({"": findings}, "rule")
    frame = frame[frame["approach"].isin(CONTROLLERS)]
    frame = frame[frame["memory"] == findings.trained_memory]
    frame = frame[frame.groupby("task")["approach"].transform("nunique") > 1]
    if frame.empty:
        return []
    controller, constraint = zip(*frame["approach"].map(CONTROLLERS), strict=True)
    table = make_table(
        "max_length_by_controller",
        "The constraint or the controller",
        "Maximum lengths by entries and by whole answers with the slots of training"
        f"{bracketed(findings)}. A dash: not trained.",
        frame.assign(controller=controller, constraint=constraint),
        ["task", "measure", "controller"],
        "constraint",
        (*findings.tasks, *chain.from_iterable(CONTROLLERS.values())),
    )
    return [table]


def lengths_by_iterations(findings: Findings, stages: Mapping[int, Findings]) -> Table:
    """Maximum lengths at every stage of a study that was extended."""
    parts = [lengths_of({"": stage}, "rule").assign(iterations=at) for at, stage in stages.items()]
    frame = pd.concat(parts)
    frame = frame[(frame["memory"] == findings.trained_memory) & (frame["measure"] == "entries")]
    return make_table(
        "max_length_by_iterations",
        "Maximum lengths by iterations of training",
        f"With the slots of training, over the trials evaluated at the time{bracketed(findings)}.",
        frame,
        ["task", "iterations"],
        "approach",
        findings.labels,
    )


def bracketed(findings: Findings) -> str:
    """For captions: what the brackets beside a maximum length hold."""
    trials = int(findings.lengths["each"].map(len).max()) if findings.curves else 1
    if trials == 1:
        return ""
    interval = f", of more than {FEW_TRIALS} the 95 % bootstrap interval"
    return f" (in brackets each trial{interval if trials > FEW_TRIALS else ''})"


def _paper_lengths(findings: Findings) -> pd.DataFrame:
    """The paper's lengths of the study's tasks, laid out like ours."""
    lines = [
        (memory, task, approach, length, str(length))
        for memory in findings.study.memories
        for (task, approach), length in findings.paper(published.max_lengths, memory).items()
        if task in findings.tasks
    ]
    return pd.DataFrame(lines, columns=[*KEY, "length", "text"]).assign(measure="paper")


def _factors(lengths: pd.DataFrame, memory: str, trained: str) -> pd.DataFrame:
    """By task and measure, the longest constrained length over the baseline's as trained."""
    wide = lengths.pivot(index=["task", "measure"], columns=["memory", "approach"], values="length")
    wide = wide.astype(float)  # they are objects if the paper lacks a task, and x / 0 would raise
    best = wide.reindex(columns=[(memory, name) for name in CONSTRAINED]).max(axis=1)
    baseline = wide.get((trained, BASELINE), 0 * best)
    factor = (best / baseline).where((best > 0) & (baseline > 0)).rename("length").reset_index()
    shown = lengths.loc[lengths["memory"] == memory, ["task", "measure"]].drop_duplicates()
    factor = factor.merge(shown)
    text = factor["length"].map(lambda value: rounded(value, 1))
    return factor.assign(memory=memory, approach=FACTOR, text=text)


def _training_scores(findings: Findings) -> pd.DataFrame:
    first, last = findings.study.training_lengths
    frame = findings.training_scores.rename("length").reset_index()
    text = frame["length"].map(percent)
    return frame.assign(
        measure=f"score at {first} to {last}, %", text=text, length=100 * frame["length"]
    )
