"""The four kinds of tables of the paper, ours beside the paper's.

Bold and italic follow the paper: the longest maximum lengths (all of them, if equal), the largest
median and p of at most 0.05 are bold, the largest mean is italic. Ours are compared before
rounding, as the paper's evidently were: of medians printed as equal, it marks one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

import numpy as np
from jaxtyping import Float

from constrained_dnc.analysis import statistics
from constrained_dnc.report import published
from constrained_dnc.report.findings import Findings, Longest, evaluate
from constrained_dnc.report.wording import DASH, MINUS, Number, rounded, signed

STATISTICS = ("median", "max", "mean", "sd")
Key = tuple[str, str]


@dataclass(frozen=True)
class Cell:
    """One entry, already worded: ours, the paper's, and ours minus the paper's."""

    ours: str
    paper: str
    difference: str
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


def all_tables(findings: Findings) -> list[Table]:
    """Every table the study has something to say in."""
    tables = []
    for extended in (False, True):
        if not findings.at(extended).curves:
            continue
        tables += [max_lengths(findings, extended), averages(findings, extended)]
        tables += [tests(findings, extended)]
        if set(findings.approaches) - set(published.APPROACHES):
            tables += [tests_of_others(findings, extended)]
    if findings.instances:
        tables += [correlations(findings)]
    if len(findings.study.selections) > 1:
        tables += [max_lengths_by_seen_selection(findings)]
    return tables


def max_lengths(findings: Findings, extended: bool) -> Table:
    """Maximum lengths and the factor over the stateful baseline without extension."""
    return max_length_table(
        findings.at(extended).longest,
        findings.plain.longest,
        findings.tasks,
        findings.approaches,
        extended,
    )


def max_lengths_by_seen_selection(findings: Findings) -> Table:
    """Maximum lengths when parameters are selected by the loss at training lengths only."""
    seen = evaluate(findings.study, extended=False, selection="seen").longest
    table = max_length_table(seen, seen, findings.tasks, findings.approaches, False)
    return Table(
        "max_length_seen_selection",
        "Maximum lengths, parameters selected on training lengths only",
        table.caption + " No unseen length was used for selection; the paper used length 30.",
        table.columns,
        table.rows,
        table.records,
    )


def max_length_table(
    longest: Mapping[Key, Longest],
    plain: Mapping[Key, Longest],
    tasks: Sequence[str],
    approaches: Sequence[str],
    extended: bool,
) -> Table:
    """`plain` holds the lengths without extension, for the factor."""
    paper = published.max_lengths(extended)
    rows, records = [], []
    for task in tasks:
        best = _largest(
            longest[task, name].length for name in approaches if (task, name) in longest
        )
        paper_best = _largest(paper[task, name] for name in approaches if (task, name) in paper)
        cells = []
        for name in approaches:
            ours, theirs = longest.get((task, name)), paper.get((task, name))
            length = None if ours is None else ours.length
            cells.append(
                Cell(
                    *_worded(length, theirs, 0),
                    "" if ours is None else _length_note(ours),
                    bold=length is not None and length == best > 0,
                    paper_bold=theirs is not None and theirs == paper_best > 0,
                )
            )
            records.append(
                {
                    "task": task,
                    "approach": name,
                    "max_length": length,
                    "interval_low": ours.interval[0] if ours and ours.interval else None,
                    "interval_high": ours.interval[1] if ours and ours.interval else None,
                    "training_score": ours.training_score if ours else None,
                    "trials": ours.trials if ours else 0,
                    "paper": theirs,
                    "difference": _difference(length, theirs),
                }
            )
        ours_factor, paper_factor = _factors(task, longest, plain, extended)
        cells.append(Cell(*_worded(ours_factor, paper_factor, 1)))
        records.append(
            {
                "task": task,
                "approach": "factor",
                "max_length": ours_factor,
                "paper": paper_factor,
                "difference": _difference(ours_factor, paper_factor),
            }
        )
        rows.append((task, tuple(cells)))
    against = "of the baseline without extension" if extended else "of the baseline"
    return Table(
        "max_length_extended_memory" if extended else "max_length",
        "Maximum lengths with extended memory" if extended else "Maximum lengths",
        "The longest input whose median score over trials is at least 95 %, with its 95 % "
        "bootstrap interval over trials and the score at the training lengths (5 to 15). Factor: "
        f"the longest of compr, reg and compr+reg over that {against} (stateful). The longest are "
        "bold.",
        (*approaches, "factor"),
        tuple(rows),
        tuple(records),
    )


def averages(findings: Findings, extended: bool) -> Table:
    """Median, maximum, mean and SD over trials of the average score."""
    return average_table(
        findings.at(extended).averages, findings.tasks, findings.approaches, extended
    )


def average_table(
    scores: Mapping[Key, Float[np.ndarray, "..."]],
    tasks: Sequence[str],
    approaches: Sequence[str],
    extended: bool,
) -> Table:
    """From the average score of every trial, in percent."""
    paper = published.average_scores(extended)
    rows, records = [], []
    for task in tasks:
        ours = {
            name: statistics.describe(scores[task, name])
            for name in approaches
            if (task, name) in scores
        }
        for statistic in STATISTICS:
            values = {name: 100 * float(getattr(told, statistic)) for name, told in ours.items()}
            theirs = {
                name: 100 * float(getattr(paper[task, name], statistic))
                for name in approaches
                if (task, name) in paper
            }
            best = _largest(values.values()) if statistic in ("median", "mean") else float("inf")
            printed_bold = published.BOLD_MEDIANS[extended].get(task)
            rows.append(
                (
                    f"{task} {statistic}",
                    tuple(
                        Cell(
                            *_worded(values.get(name), theirs.get(name), 0),
                            bold=statistic == "median" and values.get(name) == best,
                            italic=statistic == "mean" and values.get(name) == best,
                            paper_bold=statistic == "median" and name == printed_bold,
                        )
                        for name in approaches
                    ),
                )
            )
            records += [
                {
                    "task": task,
                    "approach": name,
                    "statistic": statistic,
                    "percent": values.get(name),
                    "paper": theirs.get(name),
                    "difference": _difference(values.get(name), theirs.get(name)),
                }
                for name in approaches
            ]
    up_to = statistics.AVERAGE_UP_TO_EXTENDED if extended else statistics.AVERAGE_UP_TO
    return Table(
        "average_score_extended_memory" if extended else "average_score",
        "Average scores with extended memory" if extended else "Average scores",
        f"Score of a trial in percent (hit rate for search, else accuracy), averaged over the "
        f"lengths 2 to {up_to}; over trials: median, maximum, mean and standard deviation (divisor "
        f"n {MINUS} 1). The largest median is bold, the largest mean italic.",
        tuple(approaches),
        tuple(rows),
        tuple(records),
    )


def tests(findings: Findings, extended: bool) -> Table:
    """Mann-Whitney U tests between all pairs of the paper's five approaches."""
    approaches = [name for name in findings.approaches if name in published.APPROACHES]
    pairs = statistics.all_pairs(approaches)
    results = statistics.pairwise_tests(findings.at(extended).averages, findings.tasks, pairs)
    return test_table(results, findings.tasks, pairs, extended)


def tests_of_others(findings: Findings, extended: bool) -> Table:
    """The same for the pairs with an approach outside the paper's five, adjusted on their own."""
    pairs = [
        pair
        for pair in statistics.all_pairs(findings.approaches)
        if not set(pair) <= set(published.APPROACHES)
    ]
    results = statistics.pairwise_tests(findings.at(extended).averages, findings.tasks, pairs)
    table = test_table(results, findings.tasks, pairs, extended)
    return Table(
        table.name.replace("pairwise_p", "pairwise_p_others"),
        table.title + ": other approaches",
        table.caption + " Adjusted on their own, so that the table above stays the paper's.",
        table.columns,
        table.rows,
        table.records,
        table.warnings,
    )


def test_table(
    results: Sequence[statistics.PairTest],
    tasks: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    extended: bool,
) -> Table:
    """Adjusted p-values, a row per pair and a column per task."""
    paper = published.pairwise_p(extended)
    found = {(test.task, test.first, test.second): test for test in results}
    rows, records = [], []
    for first, second in pairs:
        cells = []
        for task in tasks:
            test, theirs = found.get((task, first, second)), paper.get((task, first, second))
            p = None if test is None else test.p_adjusted
            cells.append(_p_cell(p, theirs))
            records.append(
                {
                    "task": task,
                    "first": first,
                    "second": second,
                    "p": None if test is None else test.p,
                    "p_adjusted": p,
                    "paper": theirs,
                    "difference": _difference(p, theirs),
                }
            )
        rows.append((f"{first} / {second}", tuple(cells)))
    warning = statistics.few_trials_warning(results)
    return Table(
        "pairwise_p_extended_memory" if extended else "pairwise_p",
        "Tests with extended memory" if extended else "Tests",
        "Two-sided Mann-Whitney U tests of the average scores; p adjusted by Benjamini-Hochberg "
        "over the whole table. Bold: p of at most 0.05.",
        tuple(tasks),
        tuple(rows),
        tuple(records),
        () if warning is None else (warning,),
    )


def correlations(findings: Findings) -> Table:
    """Kendall's tau between curvature and average score."""
    return correlation_table(findings.correlations())


def correlation_table(results: Sequence[statistics.Correlation]) -> Table:
    """One row per task."""
    paper = published.curvature_correlations()
    rows, records = [], []
    for result in results:
        tau, p = paper.get(result.task, (None, None))
        note = f"{result.instances} instances"
        tau_cell = Cell(*_worded(result.tau, tau, 2), note)
        rows.append((result.task, (tau_cell, _p_cell(result.p_adjusted, p))))
        records.append(
            {
                "task": result.task,
                "instances": result.instances,
                "tau": result.tau,
                "p_adjusted": result.p_adjusted,
                "paper_tau": tau,
                "paper_p_adjusted": p,
                "difference": _difference(result.tau, tau),
            }
        )
    return Table(
        "curvature_correlation",
        "Curvature and score",
        "Kendall's τ between the curvature of the state's path and the average score, over all "
        "instances with a state; p by normal approximation, adjusted by Benjamini-Hochberg over "
        "the tasks. Bold: p of at most 0.05.",
        ("τ", "p"),
        tuple(rows),
        tuple(records),
    )


def write_tables(tables: Iterable[Table], directory: Path) -> None:
    """Each table as CSV (plain numbers) and LaTeX."""
    directory.mkdir(parents=True, exist_ok=True)
    for table in tables:
        (directory / f"{table.name}.csv").write_text(to_csv(table), encoding="utf-8")
        (directory / f"{table.name}.tex").write_text(to_latex(table), encoding="utf-8")


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
    """A tabular with three lines per row: ours, the paper's, the difference."""
    lines = [
        f"% {table.title}. {table.caption}",
        *(f"% {warning}" for warning in table.warnings),
        r"\begin{tabular}{ll|" + "c" * len(table.columns) + "}",
        r"\hline",
        " & ".join(["", "", *map(_latex, table.columns)]) + r" \\",
        r"\hline",
    ]
    for label, cells in table.rows:
        entries = {
            "ours": [_marked(cell.ours, cell.bold, cell.italic) for cell in cells],
            "paper": [_marked(cell.paper, cell.paper_bold, False) for cell in cells],
            "difference": [_latex(cell.difference) for cell in cells],
        }
        for name, texts in entries.items():
            head = _latex(label) if name == "ours" else ""
            lines.append(" & ".join([head, name, *texts]) + r" \\")
        lines.append(r"\hline")
    return "\n".join([*lines, r"\end{tabular}", ""])


def _factors(
    task: str, longest: Mapping[Key, Longest], plain: Mapping[Key, Longest], extended: bool
) -> tuple[float | None, float | None]:
    baseline = plain.get((task, statistics.BASELINE))
    ours = statistics.factor(
        {name: found.length for (of, name), found in longest.items() if of == task},
        None if baseline is None else baseline.length,
    )
    lengths = published.max_lengths(extended)
    paper = statistics.factor(
        {name: length for (of, name), length in lengths.items() if of == task},
        published.max_lengths(False).get((task, statistics.BASELINE)),
    )
    return ours, paper


def _length_note(found: Longest) -> str:
    interval = "" if found.interval is None else f"[{found.interval[0]}, {found.interval[1]}], "
    return f"{interval}training {rounded(100 * found.training_score, 0)} %"


def _p_cell(ours: float | None, paper: float | None) -> Cell:
    return Cell(
        *_worded(ours, paper, 3),
        bold=ours is not None and ours <= statistics.SIGNIFICANCE,
        paper_bold=paper is not None and paper <= statistics.SIGNIFICANCE,
    )


def _worded(ours: Number | None, paper: Number | None, digits: int) -> tuple[str, str, str]:
    return (
        rounded(ours, digits),
        rounded(paper, digits),
        signed(_difference(ours, paper), digits),
    )


def _difference(ours: Number | None, paper: Number | None) -> Number | None:
    if ours is None or paper is None or isnan(ours) or isnan(paper):
        return None
    return ours - paper


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _largest(values: Iterable[Number]) -> Number:
    return max((value for value in values if not isnan(value)), default=0)


def _marked(text: str, bold: bool, italic: bool) -> str:
    inner = _latex(text)
    if bold:
        return rf"\textbf{{{inner}}}"
    return rf"\textit{{{inner}}}" if italic else inner


def _latex(text: str) -> str:
    escaped = "".join("\\" + letter if letter in "&%$#_{}" else letter for letter in text)
    return escaped.replace(DASH, "--").replace(MINUS, "$-$").replace("τ", r"$\tau$")
