"""Tables of scores, tests, curvature and state counts, ours beside the paper's, and of all runs.

As in the paper the largest median and p of at most 0.05 are bold, the largest mean is italic,
whichever approach has it. Ours are compared before rounding, as the paper's evidently were: it
marks only one of medians printed as equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from constrained_dnc.evaluation.analyses import DIMENSIONS
from constrained_dnc.report import published, statistics
from constrained_dnc.report.findings import EXPLAINED, Findings, beside_paper, memory_name
from constrained_dnc.report.tables import (
    BOLD,
    DASH,
    ITALIC,
    PROPERTIES_CAPTION,
    Table,
    is_largest,
    make_table,
    percent,
    rounded,
    state_count_text,
)

LENGTHS_SHOWN = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 100, 150, 200, 300, 500, 1000)
STATISTICS = {"median": "median", "max": "max", "mean": "mean", "std": "sd"}
FLOOR_CAPTION = "Floor: the best answer that knows the length and ignores the input."


def average_scores(rules: Mapping[str, Findings], memory: str) -> Table:
    """Median, maximum, mean and SD of the average score, the number of seeds and the floor."""
    main = next(iter(rules.values()))
    parts: dict[str, Any] = {}
    for rule, findings in beside_paper(rules).items():
        chosen = findings.averages[findings.averages["memory"] == memory]
        described = chosen.groupby(["task", "approach"])["average"].agg([*STATISTICS])
        parts[rule] = described.rename(columns=STATISTICS).stack()
    scores = main.paper(published.average_scores, memory)
    shown = {key: pd.Series(curve) for key, curve in scores.items() if key[0] in main.tasks}
    parts |= {"paper": pd.concat(shown)} if shown else {}
    lengths = main.rows[main.rows["memory"] == memory]["length"]
    first, last = main.averaged_lengths(memory)
    lengths = pd.Series(lengths[lengths.between(first, last)].unique())
    keys = main.keys([memory], main.tasks)
    others = [(*key[1:], "seeds", float(len(main.curves[key]))) for key in keys]
    others += [
        (*key[1:], "floor", main.floors[key[1]].loc[first:last].mean())
        for key in keys
        if key[1] in main.floors
    ]
    labels = ["task", "approach", "statistic"]
    parts[""] = pd.DataFrame(others, columns=[*labels, "share"]).set_index(labels)["share"]
    frame = pd.concat(parts, names=["source", *labels]).rename("share").reset_index()
    is_count = frame["statistic"] == "seeds"
    frame = frame[frame["approach"].isin(main.approaches)]
    is_paper, is_median = frame["source"] == "paper", frame["statistic"] == "median"
    best = is_largest(frame, ["task", "statistic", "source"], "share") & ~is_paper
    bold = frame["task"].map(main.paper(published.bold_medians, memory)) == frame["approach"]
    is_bold, is_italic = is_median & (best | (is_paper & bold)), frame["statistic"] == "mean"
    css = np.select([is_bold, best & is_italic], [BOLD, ITALIC], "")
    return make_table(
        f"average_score_{memory}",
        f"Average scores, {memory_name(main.study, memory)}",
        f"Score of a seed in percent, averaged over the {len(lengths)} lengths from "
        f"{lengths.min()} to {lengths.max()} that were evaluated, those given up as 0. "
        "Over seeds: median, maximum, mean and standard deviation (divisor n - 1). "
        f"{FLOOR_CAPTION} The largest median is bold, the largest mean italic.",
        frame.assign(
            text=frame["share"].map(percent).mask(is_count, frame["share"].map("{:.0f}".format)),
            css=css,
        ),
        ["task", "statistic", "source"],
        "approach",
        main.labels,
    )


def scores_by_length(findings: Findings, task: str) -> Table:
    """Median score over seeds at some lengths by approach and memory, and the floor."""
    curves = {
        (approach, memory_name(findings.study, memory) + kind, str(len(curve))): curve.median(
            skipna=False
        )
        for approach in findings.approaches
        for memory in findings.study.memories
        for kind, source in (("", findings), (", digital", findings.digital))
        if (curve := source.curves.get((memory, task, approach))) is not None
    }
    if task in findings.floors:
        curves["floor", "", ""] = findings.floors[task]
    frame = (
        pd.concat(curves, names=["approach", "memory", "seeds", "length"])
        .rename("share")
        .reset_index()
    )
    shown = frame[frame["length"].isin(LENGTHS_SHOWN)]
    shown = shown if len(shown) else frame
    return make_table(
        f"score_by_length_{task}",
        f"Score by length, {task}",
        "Share of correct entries in percent, the median over as many seeds; "
        f"a length that was given up counts as 0. {FLOOR_CAPTION} A score below it shows no skill.",
        shown.assign(text=shown["share"].map(percent)),
        ["approach", "memory", "seeds"],
        "length",
    )


def pair_tests(rules: Mapping[str, Findings], memory: str) -> Iterator[Table]:
    """Mann-Whitney U tests between pairs of approaches; the paper's five by themselves."""
    main = next(iter(rules.values()))
    for others in (False, True):
        tests = {
            rule: compared.pair_tests(memory, others)
            for rule, compared in beside_paper(rules).items()
        }
        if all(test.trials == (1, 1) for made in tests.values() for test in made):
            continue  # none, or none that can tell anything
        parts = {rule: pd.DataFrame(made) for rule, made in tests.items() if made}
        frame = pd.concat(parts, names=["source", None]).reset_index("source")
        paper = {} if others else main.paper(published.pairwise_p, memory)
        if paper:
            pairs = ["task", "first", "second"]
            lines = [(*pair, p, "paper") for pair, p in paper.items()]
            published_tests = pd.DataFrame(lines, columns=[*pairs, "p_adjusted", "source"])
            frame = pd.concat([frame, published_tests.merge(frame[pairs].drop_duplicates())])
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
    """Kendall's tau of every property with the average score, beside the paper's."""
    paper = published.curvature_correlations() if findings.is_comparable else {}
    lines = []
    for column, name in findings.properties.items():
        for ours in findings.correlations(column):
            lines += [
                (ours.task, name, "tau", ours.tau, 2),
                (ours.task, name, "p", ours.p_adjusted, 3),
                (ours.task, name, "instances", ours.instances, 0),
            ]
            if column == "curvature" and ours.task in paper:
                tau, p = paper[ours.task]
                lines += [
                    (ours.task, name, "paper's tau", tau, 2),
                    (ours.task, name, "paper's p", p, 3),
                ]
    frame = pd.DataFrame(lines, columns=["task", "measure", "statistic", "value", "digits"])
    is_bold = frame["statistic"].str.endswith("p") & (frame["value"] <= statistics.SIGNIFICANCE)
    text = [rounded(*cell) for cell in zip(frame["value"], frame["digits"], strict=True)]
    return make_table(
        "correlations",
        "Properties and score",
        f"Kendall's tau between a property of the states and the average score, over the instances "
        f"of {', '.join(findings.pooled)}, selected by {findings.selection}; p by normal "
        "approximation, adjusted by Benjamini-Hochberg over the tasks. Bold: at most "
        f"{statistics.SIGNIFICANCE}. {PROPERTIES_CAPTION}",
        frame.assign(text=text, css=np.where(is_bold, BOLD, "")).drop(columns="digits"),
        ["task", "measure"],
        "statistic",
        (*findings.labels, *findings.properties.values(), "tau", "paper's tau", "p", "paper's p"),
    )


def properties(findings: Findings) -> Table:
    """The properties of every approach: median, range and number of its seeds."""
    long = findings.instances.melt(["task", "approach"], [*findings.properties], "measure").dropna()
    groups = long.groupby(["task", "measure", "approach"], sort=False)["value"]
    frame = groups.agg(["median", "min", "max", "count"]).reset_index()
    text = []
    for row in frame.to_dict("records"):
        is_count = row["measure"] == "state_count"
        median, least, most = (
            state_count_text(row[name]) if is_count else rounded(row[name], 2)
            for name in ("median", "min", "max")
        )
        spread = "" if least == most else f"{least} to {most}, "
        text.append(f"{median} ({spread}n = {row['count']})")
    return make_table(
        "properties",
        "Properties by approach",
        "Median over seeds and, in brackets, their range and number. "
        f"{PROPERTIES_CAPTION} Selected by {findings.selection}.",
        frame.assign(text=text, measure=frame["measure"].map(findings.properties)),
        ["task", "measure"],
        "approach",
        (*findings.labels, *findings.properties.values()),
    )


def explained_variances(findings: Findings) -> Table:
    """The share of the variance of the states that the principal components explain."""
    pooled = findings.instances[findings.instances["approach"].isin(findings.pooled)]
    ours = pooled.groupby("task")[EXPLAINED].agg(["mean", "count"]).dropna()
    paper = published.explained_variances() if findings.is_comparable else {}
    lines = []
    for task, values in ours.iterrows():
        lines.append((task, "ours", values["mean"], percent(values["mean"])))
        lines.append((task, "instances", values["count"], rounded(values["count"], 0)))
        if task in paper:
            lines.append((task, "paper", paper[str(task)], percent(paper[str(task)])))
    frame = pd.DataFrame(lines, columns=["task", "source", "share", "text"])
    return make_table(
        "explained_variance",
        "Explained variance",
        f"Share of the variance of the cell states that {DIMENSIONS} principal components explain, "
        f"in percent: the mean over the instances of {', '.join(findings.pooled)}.",
        frame,
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
