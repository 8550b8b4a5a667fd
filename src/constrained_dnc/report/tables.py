"""The four kinds of tables of the paper, ours beside the paper's.

Bold and italic follow the paper: the longest maximum lengths (all of them, if equal), the largest
median and p of at most 0.05 are bold, the largest mean is italic. Ours are compared before
rounding, as the paper's evidently were: of medians printed as equal, it marks one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.analysis.state_space import DIMENSIONS
from constrained_dnc.report.cells import Cell, Table, difference, largest, worded
from constrained_dnc.report.findings import POOLED, Findings, Key
from constrained_dnc.report.lengths import max_lengths
from constrained_dnc.report.wording import MINUS, plural, span

STATISTICS = ("median", "max", "mean", "sd")


def all_tables(findings: Findings) -> list[Table]:
    """Every table the study has something to say in."""
    tables = []
    for extended in (False, True):
        if not findings.at(extended).curves:
            continue
        tables += [max_lengths(findings, extended), averages(findings, extended)]
        tables += [pair_tests(findings, extended)]
        if set(findings.approaches) - set(published.APPROACHES):
            tables += [pair_tests_of_others(findings, extended)]
    if findings.instances:
        tables += [correlations(findings), explained_variances(findings)]
    return tables


def averages(findings: Findings, extended: bool) -> Table:
    """Median, maximum, mean and SD over trials of the average score."""
    evaluation = findings.at(extended)
    return average_table(
        evaluation.averages,
        findings.tasks,
        findings.approaches,
        extended,
        evaluation.averaged_lengths,
    )


def average_table(
    scores: Mapping[Key, Float[np.ndarray, "..."]],
    tasks: Sequence[str],
    approaches: Sequence[str],
    extended: bool,
    averaged_lengths: tuple[int, int] | None = None,
) -> Table:
    """From the average score of every trial, in percent."""
    paper = published.average_scores(extended)
    rows, records = [], []
    for task in tasks:
        described = {
            name: statistics.describe(scores[task, name])
            for name in approaches
            if (task, name) in scores
        }
        printed = {name: paper[task, name] for name in approaches if (task, name) in paper}
        marked = published.BOLD_MEDIANS[extended].get(task)
        for statistic in STATISTICS:
            ours, theirs = _percents(described, statistic), _percents(printed, statistic)
            cells = _average_cells(statistic, approaches, ours, theirs, marked)
            rows.append((f"{task} {statistic}", tuple(cells)))
            records += [
                {
                    "task": task,
                    "approach": name,
                    "statistic": statistic,
                    "percent": ours.get(name),
                    "paper": theirs.get(name),
                    "difference": difference(ours.get(name), theirs.get(name)),
                }
                for name in approaches
            ]
    return Table(
        "average_score_extended_memory" if extended else "average_score",
        "Average scores with extended memory" if extended else "Average scores",
        _average_caption(approaches, extended, averaged_lengths),
        tuple(approaches),
        tuple(rows),
        tuple(records),
    )


def _percents(described: Mapping[str, published.Description], statistic: str) -> dict[str, float]:
    return {name: 100 * float(getattr(told, statistic)) for name, told in described.items()}


def _average_cells(
    statistic: str,
    approaches: Sequence[str],
    ours: Mapping[str, float],
    theirs: Mapping[str, float],
    marked: str | None,
) -> Iterator[Cell]:
    """One per approach; only the paper's own compete for a mark."""
    best = largest(value for name, value in ours.items() if name in published.APPROACHES)
    for name in approaches:
        is_best = name in published.APPROACHES and ours.get(name) == best
        yield Cell(
            *worded(ours.get(name), theirs.get(name), 0),
            bold=statistic == "median" and is_best,
            italic=statistic == "mean" and is_best,
            paper_bold=statistic == "median" and name == marked,
        )


def _average_caption(
    approaches: Sequence[str], extended: bool, averaged_lengths: tuple[int, int] | None
) -> str:
    up_to = published.AVERAGE_UP_TO_EXTENDED if extended else published.AVERAGE_UP_TO
    over = "the evaluated lengths" if averaged_lengths is None else "the evaluated lengths from "
    over += "" if averaged_lengths is None else span(averaged_lengths)
    papers = (published.AVERAGE_FROM, up_to)
    if averaged_lengths != papers:
        over += f" (paper: {span(papers)})"
    of_paper = "of the paper's approaches " if set(approaches) - set(published.APPROACHES) else ""
    return (
        f"Score of a trial in percent (hit rate for search, else accuracy), averaged over {over}; "
        f"over trials: median, maximum, mean and standard deviation (divisor n {MINUS} 1). The "
        f"largest median {of_paper}is bold, the largest mean italic."
    )


def pair_tests(findings: Findings, extended: bool) -> Table:
    """Mann-Whitney U tests between all pairs of the paper's five approaches."""
    approaches = [name for name in findings.approaches if name in published.APPROACHES]
    pairs = statistics.all_pairs(approaches)
    return pair_test_table(findings.pair_tests(extended), findings.tasks, pairs, extended)


def pair_tests_of_others(findings: Findings, extended: bool) -> Table:
    """The same for the pairs with an approach outside the paper's five, adjusted on their own."""
    pairs = [
        pair
        for pair in statistics.all_pairs(findings.approaches)
        if not set(pair) <= set(published.APPROACHES)
    ]
    results = statistics.pairwise_tests(findings.at(extended).averages, findings.tasks, pairs)
    table = pair_test_table(results, findings.tasks, pairs, extended)
    return replace(
        table,
        name=table.name.replace("pairwise_p", "pairwise_p_others"),
        title=f"{table.title}: other approaches",
        caption=f"{table.caption} Adjusted on their own, so that the table above stays the "
        "paper's.",
    )


def pair_test_table(
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
                    "difference": difference(p, theirs),
                }
            )
        rows.append((f"{first} / {second}", tuple(cells)))
    warning = statistics.few_trials_warning(results)
    return Table(
        "pairwise_p_extended_memory" if extended else "pairwise_p",
        "Tests with extended memory" if extended else "Tests",
        "Two-sided Mann-Whitney U tests of the average scores; p adjusted by Benjamini-Hochberg "
        f"over the whole table. Bold: p of at most {statistics.SIGNIFICANCE}.",
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
        tau_cell = Cell(*worded(result.tau, tau, 2), note)
        rows.append((result.task, (tau_cell, _p_cell(result.p_adjusted, p))))
        records.append(
            {
                "task": result.task,
                "instances": result.instances,
                "tau": result.tau,
                "p_adjusted": result.p_adjusted,
                "paper_tau": tau,
                "paper_p_adjusted": p,
                "difference": difference(result.tau, tau),
            }
        )
    return Table(
        "curvature_correlation",
        "Curvature and score",
        "Kendall's τ between the curvature of the state's path and the average score, over all "
        f"instances of {POOLED}; p by normal approximation, "
        "adjusted by Benjamini-Hochberg over the tasks. Bold: p of at most "
        f"{statistics.SIGNIFICANCE}.",
        ("τ", "p"),
        tuple(rows),
        tuple(records),
    )


def explained_variances(findings: Findings) -> Table:
    """How much of the states' variance the principal components hold."""
    paper = published.explained_variances()
    rows, records = [], []
    for task, found in findings.instances.items():
        known = found.explained_variance[~np.isnan(found.explained_variance)]
        if not len(known):
            continue
        ours, theirs = float(known.mean()), paper.get(task)
        percent = None if theirs is None else 100 * theirs
        note = plural(len(known), "instance")
        rows.append((task, (Cell(*worded(100 * ours, percent, 0), note),)))
        records.append(
            {
                "task": task,
                "instances": len(known),
                "explained_percent": 100 * ours,
                "paper": percent,
                "difference": difference(100 * ours, percent),
            }
        )
    return Table(
        "explained_variance",
        "Explained variance",
        f"Share of the variance of the cell states that {DIMENSIONS} principal components explain "
        f"(fewer where there are fewer cells), in percent: the mean over all instances of "
        f"{POOLED}.",
        ("explained (%)",),
        tuple(rows),
        tuple(records),
    )


def _p_cell(ours: float | None, paper: float | None) -> Cell:
    """Both p-values; their difference says nothing."""
    return Cell(
        *worded(ours, paper, 3)[:2],
        bold=ours is not None and ours <= statistics.SIGNIFICANCE,
        paper_bold=paper is not None and paper <= statistics.SIGNIFICANCE,
    )
