"""Tables of scores, tests, curvature and state counts, ours beside the paper's, and of all runs.

Bold and italic follow the paper: the largest median and p of at most 0.05 are bold, the largest
mean is italic. Ours are compared before rounding, as the paper's evidently were: it marks only one
of medians printed as equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from constrained_dnc.evaluation.analyses import DIMENSIONS
from constrained_dnc.report import published, statistics
from constrained_dnc.report.findings import Findings, beside_paper, memory_name
from constrained_dnc.report.tables import (
    BOLD,
    DASH,
    ITALIC,
    Table,
    is_largest,
    make_table,
    percent,
    rounded,
    state_count_text,
)

LENGTHS_SHOWN = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 100, 150, 200, 300, 500, 1000)
STATISTICS = {"median": "median", "max": "max", "mean": "mean", "std": "sd"}
POOLED = f"the instances of {', '.join(published.STATEFUL)}"
FLOOR_CAPTION = "Floor: the best answer that knows the length and ignores the input."
MEASURES = {"curvature": "curvature", "drift": "drift", "state_count": "state count"}
"""Properties of a model that are compared with its average score."""


def average_scores(rules: Mapping[str, Findings], memory: str) -> Table:
    """Median, maximum, mean and SD over trials of the average score, and its floor."""
    main = next(iter(rules.values()))
    parts: dict[str, Any] = {}
    for rule, findings in beside_paper(rules).items():
        chosen = findings.averages[findings.averages["memory"] == memory]
        described = chosen.groupby(["task", "approach"])["average"].agg([*STATISTICS])
        parts[rule] = described.rename(columns=STATISTICS).stack()
    scores = main.paper(published.average_scores, memory)
    shown = {key: pd.Series(it) for key, it in scores.items() if key[0] in main.tasks}
    parts |= {"paper": pd.concat(shown)} if shown else {}
    lengths = main.rows[main.rows["memory"] == memory]["length"]
    lengths = lengths[lengths.between(published.AVERAGE_FROM, main.average_up_to(memory))]
    first, last = lengths.min(), lengths.max()
    floors = [
        (task, approach, "floor", main.floors[task].loc[first:last].mean())
        for _, task, approach in main.keys([memory], [*main.floors])
    ]
    labels = ["task", "approach", "statistic"]
    parts[""] = pd.DataFrame(floors, columns=[*labels, "share"]).set_index(labels)["share"]
    frame = pd.concat(parts, names=["source", *labels]).rename("share").reset_index()
    frame = frame[frame["approach"].isin(main.approaches)]
    is_paper, is_median = frame["source"] == "paper", frame["statistic"] == "median"
    best = is_largest(frame, ["task", "statistic", "source"], "share") & ~is_paper
    bold = frame["task"].map(main.paper(published.bold_medians, memory)) == frame["approach"]
    is_bold, is_italic = is_median & (best | (is_paper & bold)), frame["statistic"] == "mean"
    css = np.select([is_bold, best & is_italic], [BOLD, ITALIC], "")
    return make_table(
        f"average_score_{memory}",
        f"Average scores, {memory_name(main.study, memory)}",
        f"Score of a trial in percent, averaged over the evaluated lengths from {first} to {last} "
        f"(paper: {published.AVERAGE_FROM} to {main.average_up_to(memory)}); over trials: median, "
        f"maximum, mean and standard deviation (divisor n - 1). {FLOOR_CAPTION} Of the paper's "
        "approaches the largest median is bold, the largest mean italic.",
        frame.assign(text=frame["share"].map(percent), css=css),
        ["task", "statistic", "source"],
        "approach",
        main.labels,
    )


def scores_by_length(findings: Findings, task: str) -> Table:
    """Median score over trials at some lengths by approach and memory, and the floor."""
    curves = {
        (approach, memory_name(findings.study, memory) + kind): curve.median(skipna=False)
        for approach in findings.approaches
        for memory in findings.study.memories
        for kind, it in (("", findings), (", digital", findings.digital))
        if (curve := it.curves.get((memory, task, approach))) is not None
    }
    if task in findings.floors:
        curves["floor", ""] = findings.floors[task]
    frame = pd.concat(curves, names=["approach", "memory", "length"]).rename("share").reset_index()
    shown = frame[frame["length"].isin(LENGTHS_SHOWN)]
    shown = shown if len(shown) else frame
    return make_table(
        f"score_by_length_{task}",
        f"Score by length, {task}",
        f"Share of correct entries in percent, the median over trials. {FLOOR_CAPTION} A score "
        "below it shows no skill.",
        shown.assign(text=shown["share"].map(percent)),
        ["approach", "memory"],
        "length",
    )


def pair_tests(rules: Mapping[str, Findings], memory: str) -> Iterator[Table]:
    """Mann-Whitney U tests between pairs of approaches: the paper's five, then with others."""
    main = next(iter(rules.values()))
    for others in (False, True):
        tests = {rule: it.pair_tests(memory, others) for rule, it in beside_paper(rules).items()}
        parts = {rule: pd.DataFrame(made) for rule, made in tests.items() if made}
        if not parts:
            continue
        frame = pd.concat(parts, names=["source", None]).reset_index("source")
        paper = {} if others else main.paper(published.pairwise_p, memory)
        if paper:
            pairs = ["task", "first", "second"]
            lines = [(*pair, p, "paper") for pair, p in paper.items()]
            known = pd.DataFrame(lines, columns=[*pairs, "p_adjusted", "source"])
            frame = pd.concat([frame, known.merge(frame[pairs].drop_duplicates())])
        yield make_table(
            f"pairwise_p_{'others_' if others else ''}{memory}",
            f"Tests{' of other approaches' if others else ''}, {memory_name(main.study, memory)}",
            "Two-sided Mann-Whitney U tests of the average scores; p adjusted by "
            f"Benjamini-Hochberg over the table. Bold: at most {statistics.SIGNIFICANCE}. "
            f"{statistics.few_trials_warning(tests[main.selection])}",
            frame.assign(
                text=frame["p_adjusted"].map(lambda p: rounded(p, 3)),
                css=np.where(frame["p_adjusted"] <= statistics.SIGNIFICANCE, BOLD, ""),
            ),
            ["first", "second", "source"],
            "task",
            main.labels,
        )


def correlations(findings: Findings) -> Table:
    """Kendall's tau of curvature and of state count with the average score, beside the paper's."""
    paper = published.curvature_correlations()
    lines = []
    for measure, name in MEASURES.items():
        for ours in findings.correlations(measure):
            known = paper.get(ours.task, (None, None)) if measure == "curvature" else (None, None)
            lines += [
                (ours.task, name, "tau", ours.tau, 2),
                (ours.task, name, "paper's tau", known[0], 2),
                (ours.task, name, "p", ours.p_adjusted, 3),
                (ours.task, name, "paper's p", known[1], 3),
                (ours.task, name, "instances", ours.instances, 0),
            ]
    frame = pd.DataFrame(lines, columns=["task", "measure", "statistic", "value", "digits"])
    is_bold = frame["statistic"].str.endswith("p") & (frame["value"] <= statistics.SIGNIFICANCE)
    text = [rounded(*cell) for cell in zip(frame["value"], frame["digits"], strict=True)]
    return make_table(
        "curvature_correlation",
        "Curvature, state count and score",
        f"Kendall's tau between the curvature of the state's path, or the state count k*, and the "
        f"average score, over {POOLED}, selected by {findings.selection}; p by normal "
        "approximation, adjusted by Benjamini-Hochberg over the tasks. Bold: at most "
        f"{statistics.SIGNIFICANCE}.",
        frame.assign(text=text, css=np.where(is_bold, BOLD, "")).drop(columns="digits"),
        ["task", "measure"],
        "statistic",
        findings.labels,
    )


def properties(findings: Findings) -> Table:
    """The curvature and the state count of every approach: the median and range of its trials."""
    long = findings.instances.melt(["task", "approach"], [*MEASURES], "measure").dropna()
    groups = long.groupby(["task", "measure", "approach"], sort=False)["value"]
    frame = groups.agg(["median", "min", "max"]).reset_index()
    text = []
    for row in frame.to_dict("records"):
        is_count = row["measure"] == "state_count"
        median, least, most = (
            state_count_text(row[name]) if is_count else rounded(row[name], 2)
            for name in ("median", "min", "max")
        )
        text.append(median if least == most else f"{median} ({least} to {most})")
    return make_table(
        "curvature",
        "Curvature and state count by approach",
        "Median over trials and, in brackets, their range; the state count k* is the smallest "
        "number of states with which a model keeps 99 % of its score at training lengths. Selected "
        f"by {findings.selection}.",
        frame.assign(text=text, measure=frame["measure"].map(MEASURES)),
        ["task", "measure"],
        "approach",
        findings.labels,
    )


def explained_variances(findings: Findings) -> Table:
    """The share of the variance of the states that the principal components explain."""
    pooled = findings.instances[findings.instances["approach"].isin(published.STATEFUL)]
    ours = pooled.groupby("task")["explained_variance"].mean().dropna()
    paper = pd.Series(published.explained_variances(), dtype=float)
    sources = {"ours": ours, "paper": paper[paper.index.isin(ours.index)]}
    frame = pd.concat(sources, names=["source", "task"]).rename("share").reset_index()
    return make_table(
        "explained_variance",
        "Explained variance",
        f"Share of the variance of the cell states that {DIMENSIONS} principal components explain, "
        f"in percent: the mean over {POOLED}.",
        frame.assign(text=frame["share"].map(percent)),
        ["task"],
        "source",
        findings.labels,
    )


def runs(findings: Findings) -> Table:
    """How long every run was trained, its state count, and the iterations each rule selected."""
    study = findings.study
    selected = study.results.groupby(["run_id", "selection"])["iteration"].last().unstack()
    selected = selected.reindex(columns=list(study.selections)).add_prefix("selected by ")
    counts = findings.instances.set_index("run_id")["state_count"].rename("state count")
    frame = study.runs.join(selected.astype("Int64"))
    if counts.notna().any():
        frame = frame.join(counts.map(state_count_text))
    frame = frame.set_index(["task", "approach", "seed"], append=True).reorder_levels([1, 2, 3, 0])
    return Table(
        "runs",
        "Every run",
        "How far it was trained, and the iteration that each selection rule chose.",
        frame.astype(object).where(frame.notna(), DASH).astype(str),
    )
