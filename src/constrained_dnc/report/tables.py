"""A table as HTML, LaTeX, Markdown, CSV and for a terminal; the tables of maximum lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain
from math import inf, isfinite
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from pandas.io.formats.style import Styler
from rich.box import SIMPLE
from rich.table import Table as RichTable
from rich.text import Text

from constrained_dnc.errors import printable
from constrained_dnc.evaluation.results import sort_results
from constrained_dnc.files import make_folder, write_atomically
from constrained_dnc.report import published
from constrained_dnc.report.findings import (
    KEY,
    Findings,
    beside_paper,
    memory_name,
)
from constrained_dnc.report.statistics import FEW_TRIALS

Number = float | int
DASH = "\u2013"
PROPERTIES_CAPTION = (
    "Curvature: of the path of the state. Drift: how far states leave those of training lengths "
    "while answering at the unseen length, over the spread of those. State count k*: the fewest "
    "states with which a model keeps 99 % of its score at training lengths."
)
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
        marks = {BOLD: "**{}**", ITALIC: "*{}*"}
        lines = [heads, ["---"] * len(heads)]
        for labels, cells in self._rows():
            lines.append([*labels, *(marks.get(css, "{}").format(text) for text, css in cells)])
        return "\n".join("|".join(("", *(f" {text} " for text in line), "")) for line in lines)

    def to_terminal(self) -> RichTable:
        """A table for a terminal; repeated labels are left out."""
        table = RichTable(box=SIMPLE, pad_edge=False, collapse_padding=True)
        table.title, table.title_justify = printable(self.title), "left"
        for _ in range(self.cells.index.nlevels):
            table.add_column(overflow="fold")
        for name in self.cells.columns:
            table.add_column(Text(printable(str(name))), justify="right", overflow="fold")
        before: tuple[str, ...] = ()
        for labels, cells in self._rows():
            if before and labels[0] != before[0] and len(labels) > 1:
                table.add_section()
            shown = [
                "" if labels[: level + 1] == before[: level + 1] else label
                for level, label in enumerate(labels)
            ]
            marks = {BOLD: "bold", ITALIC: "italic"}
            texts = [Text(printable(text), marks.get(css, "")) for text, css in cells]
            table.add_row(*(Text(printable(label)) for label in shown), *texts)
            before = labels
        return table

    def _rows(self) -> Iterator[tuple[tuple[str, ...], list[tuple[str, str]]]]:
        """The labels of every row, and its cells with their CSS."""
        css = self.css if len(self.css) else self.cells.map(lambda _: "")
        labels = self.cells.index.to_frame().to_numpy()
        for names, texts, marks in zip(labels, self.cells.to_numpy(), css.to_numpy(), strict=True):
            yield tuple(map(str, names)), [*zip(texts, marks, strict=True)]

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
    """Whether a value is the largest of several approaches in its group, and above 0."""
    values = frame[value].astype(float)
    best = values.groupby([frame[label] for label in by]).transform("max")
    several = values.groupby([frame[label] for label in by]).transform("count") > 1
    return (values == best) & (best > 0) & several


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
FACTOR_CAPTION = (
    "Factor: the longest of compr, reg and compr+reg over the stateful baseline with the slots of "
    "training."
)
CONTROLLERS = {
    "stateful-baseline": ("LSTM", "no constraint"),
    "lstm-compr+reg": ("LSTM", "compr+reg"),
    "peephole": ("peephole LSTM", "no constraint"),
    "compr+reg": ("peephole LSTM", "compr+reg"),
}
"""Two controllers times two constraints."""


def with_trials(length: int, trials: Sequence[int], low: Number, high: Number) -> str:
    """A maximum length, and those of a few trials or the interval over many.

    >>> with_trials(32, (32, 15, 37), 15, 37), with_trials(32, [32] * 10, 30, 34)
    ('32 (32, 15, 37)', '32 [30, 34] of 10')
    """
    if len(trials) == 1:
        return str(length)
    if len(trials) <= FEW_TRIALS:
        return f"{length} ({', '.join(map(str, trials))})"
    return f"{length} [{low:.0f}, {high:.0f}] of {len(trials)}"


def lengths_of(findings: Mapping[str, Findings], name: str) -> pd.DataFrame:
    """One line per maximum length of several findings, whose names are in the column `name`."""
    parts = {key: found.lengths for key, found in findings.items() if found.curves}
    frame = pd.concat(parts, names=[name]).reset_index()
    cells = frame[["length", "each", "low", "high"]].itertuples(index=False)
    return frame.assign(text=[with_trials(*cell) for cell in cells])


def summary(rules: Mapping[str, Findings]) -> Table:
    """Maximum lengths of every task and approach, as short as they can be said."""
    main = next(iter(rules.values()))
    ours = lengths_of({**beside_paper(rules), "digital": main.digital}, "rule")
    is_main, is_entries = ours["rule"] == main.selection, ours["measure"] == "entries"
    is_trained = ours["memory"] == main.trained_memory
    names = ours["rule"].where(ours["rule"] == "digital", "by " + ours["rule"])
    names = names.mask(is_main, ours["measure"].replace("whole", "whole answers"))
    memories = ours["memory"].map(lambda memory: memory_name(main.study, memory))
    ours = ours.assign(column=names.where(is_trained, memories))
    ours = ours[is_trained & (is_main | is_entries) | is_main & is_entries]
    paper = _paper_lengths(main)
    paper = paper[paper["memory"] == main.trained_memory].assign(column="paper")
    frame = pd.concat([ours, paper.merge(ours[["task", "approach"]].drop_duplicates())])
    is_bold = is_largest(frame, ["task", "column"], "length")
    return make_table(
        "summary",
        "Longest inputs",
        f"The longest input with at least 95 % correct, by entries and by whole answers: of the "
        f"median over seeds{bracketed(main)}. Selected by {main.selection}, with "
        f"{main.trained_memory} slots unless others are named. Bold: the longest of the task.",
        frame.assign(css=np.where(is_bold, BOLD, "")),
        ["task", "approach"],
        "column",
        (*main.labels, "entries", "whole answers", *memories.unique(), "digital"),
    )


def max_lengths(rules: Mapping[str, Findings], memory: str) -> Table:
    """Maximum lengths by correct entries and by whole answers, beside the paper's, and factors."""
    main = next(iter(rules.values()))
    ours = lengths_of({**beside_paper(rules), f"{main.selection}, digital": main.digital}, "rule")
    ours = ours[ours["rule"].str.startswith(main.selection) | (ours["measure"] == "entries")]
    ours = ours.assign(measure=ours["rule"] + ", " + ours["measure"])
    lengths = pd.concat([ours.drop(columns="rule"), _paper_lengths(main)])
    is_bold = is_largest(lengths, ["memory", "task", "measure"], "length")
    lengths = lengths.assign(css=np.where(is_bold, BOLD, ""))
    parts = [lengths, _training_scores(main)]
    parts += [_factors(lengths, memory, main.trained_memory)] if main.is_comparable else []
    frame = pd.concat(parts).fillna({"css": ""})
    frame = frame[frame["memory"] == memory]
    frame = frame[frame["approach"].isin([*main.approaches, FACTOR])]
    return make_table(
        f"max_length_{memory}",
        f"Maximum lengths, {memory_name(main.study, memory)}",
        "The longest input with at least 95 % correct, by entries (the paper's measure) and by "
        f"whole answers: of the median over seeds{bracketed(main)}. A length whose floor reaches "
        "95 % does not count; a seed that was given up fails at longer inputs. Bold: the longest."
        + f" {FACTOR_CAPTION}"
        * main.is_comparable,
        frame,
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
    interval = f", of more than {FEW_TRIALS} their number and the 95 % bootstrap interval"
    return f" (in brackets each seed{interval if trials > FEW_TRIALS else ''})"


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
    """The median score at training lengths, and the seeds that do not solve them."""
    first, last = findings.study.training_lengths
    lines = []
    for key, scores in findings.training_scores.items():
        poor = [
            f"seed {seed}: {rounded(100 * score, 1)}"
            for seed, score in findings.unlearnt(key).items()
        ]
        text = percent(scores.median()) + f" ({', '.join(poor)})" * bool(poor)
        lines.append((*key, 100 * scores.median(), text))
    frame = pd.DataFrame(lines, columns=[*KEY, "length", "text"])
    return frame.assign(measure=f"score at {first} to {last}, %")
