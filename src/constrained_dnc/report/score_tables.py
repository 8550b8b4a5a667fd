"""Tables of scores, tests and curvature, ours beside the paper's, and of all runs.

Bold and italic follow the paper: the largest median and p of at most 0.05 are bold, the largest
mean is italic. Ours are compared before rounding, as the paper's evidently were: of medians
printed as equal, it marks one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

import pandas as pd

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.analysis.state_space import DIMENSIONS
from constrained_dnc.report.findings import Findings, beside_paper, memory_name
from constrained_dnc.report.tables import (
    ITALIC,
    Table,
    is_largest,
    make_table,
    marked,
    percent,
    rounded,
)
from constrained_dnc.study import Study

LENGTHS_SHOWN = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 100, 150, 200, 300, 500, 1000)
STATISTICS = {"median": "median", "max": "max", "mean": "mean", "sd": "std"}
POOLED = f"the instances of {', '.join(published.STATEFUL)}"
FLOOR_CAPTION = "Floor: the best answer that knows the length and ignores the input."


def average_scores(rules: Mapping[str, Findings], memory: str) -> Table:
    """Median, maximum, mean and SD over trials of the average score, and its floor."""
    main = next(iter(rules.values()))
    parts = []
    for rule, findings in beside_paper(rules).items():
        chosen = findings.averages[findings.averages["memory"] == memory]
        described = chosen.groupby(["task", "approach"])["average"].agg([*STATISTICS.values()])
        described = described.set_axis([*STATISTICS], axis="columns")
        parts.append(_melted(described, rule))
    parts += [_paper_averages(main, memory), _average_floors(main, memory)]
    frame = pd.concat(parts)
    by = ["task", "statistic", "source"]
    best = is_largest(frame, by, "share") & (frame["source"] != "paper")
    is_bold = (best & (frame["statistic"] == "median")) | frame["is_bold"].eq(True)
    css = marked(is_bold).mask(best & (frame["statistic"] == "mean"), ITALIC)
    first, last = main.averaged_lengths(memory)
    return make_table(
        f"average_score_{memory}",
        f"Average scores, {memory_name(main.study, memory)}",
        f"Score of a trial in percent, averaged over the evaluated lengths from {first} to {last} "
        f"(paper: {published.AVERAGE_FROM} to {main.average_up_to(memory)}); over trials: median, "
        f"maximum, mean and standard deviation (divisor n - 1). {FLOOR_CAPTION} Of the paper's "
        "approaches the largest median is bold, the largest mean italic.",
        frame.assign(text=frame["share"].map(percent), css=css).drop(columns="is_bold"),
        by,
        "approach",
        task=main.tasks,
        statistic=[*STATISTICS, "floor"],
        source=[*rules, "paper"],
        approach=main.approaches,
    )


def _melted(described: pd.DataFrame, source: str) -> pd.DataFrame:
    """One line per task, approach and statistic."""
    columns = described.columns.tolist()
    frame = described.reset_index().melt(
        ["task", "approach"], columns, var_name="statistic", value_name="share"
    )
    return frame.assign(source=source)


def _paper_averages(findings: Findings, memory: str) -> pd.DataFrame:
    extended = findings.in_paper(memory)
    if extended is None:
        return pd.DataFrame(columns=["is_bold"])
    scores = published.average_scores(extended)
    shown = {key: asdict(score) for key, score in scores.items() if key[0] in findings.tasks}
    if not shown:
        return pd.DataFrame(columns=["is_bold"])
    described = pd.DataFrame.from_dict(shown, orient="index")
    described.index.names = ["task", "approach"]
    frame = _melted(described, "paper")
    bold = frame["task"].map(published.BOLD_MEDIANS[extended]) == frame["approach"]
    frame = frame.assign(is_bold=bold & (frame["statistic"] == "median"))
    return frame[frame["approach"].isin(findings.approaches)]


def _average_floors(findings: Findings, memory: str) -> pd.DataFrame:
    first, last = findings.averaged_lengths(memory)
    rows = findings.rows[findings.rows["memory"] == memory]
    lines = [
        {"task": task, "approach": approach, "share": floor.loc[first:last].mean()}
        for task, floor in findings.floors.items()
        for approach in rows.loc[rows["task"] == task, "approach"].unique()
    ]
    return pd.DataFrame(lines).assign(statistic="floor", source="")


def scores_by_length(findings: Findings, task: str) -> Table:
    """Median score over trials at some lengths by approach and memory, and the floor."""
    curves = {
        (approach, memory_name(findings.study, memory)): curve.median(skipna=False)
        for approach in findings.approaches
        for memory in findings.memories
        if (curve := findings.curves.get((memory, task, approach))) is not None
    }
    if task in findings.floors:
        curves["floor", ""] = findings.floors[task]
    frame = pd.concat(curves, names=["approach", "memory", "length"]).rename("share").reset_index()
    shown = frame[frame["length"].isin(LENGTHS_SHOWN)]
    shown = shown if len(shown) else frame
    return make_table(
        f"score_by_length_{task}",
        f"Score by length, {task}",
        f"Share of right entries in percent, the median over trials. {FLOOR_CAPTION} A score below "
        "it shows no skill.",
        shown.assign(text=shown["share"].map(percent)),
        ["approach", "memory"],
        "length",
        length=sorted(set(shown["length"])),
    )


def pair_tests(rules: Mapping[str, Findings], memory: str) -> Iterator[Table]:
    """Mann-Whitney U tests between pairs of approaches: the paper's five, then with others."""
    main = next(iter(rules.values()))
    extended = main.in_paper(memory)
    for others in (False, True):
        tests = {rule: it.pair_tests(memory, others) for rule, it in beside_paper(rules).items()}
        lines: list[tuple[object, ...]] = [
            (test.task, test.first, test.second, rule, test.p_adjusted, test.p)
            for rule, made in tests.items()
            for test in made
        ]
        if not lines:
            continue
        if not others and extended is not None:
            ran = {line[:3] for line in lines}
            paper = published.pairwise_p(extended)
            lines += [(*pair, "paper", p, None) for pair, p in paper.items() if pair in ran]
        columns = ["task", "first", "second", "source", "p_adjusted", "p"]
        frame = pd.DataFrame(lines, columns=columns)
        warning = statistics.few_trials_warning(tests[main.selection])
        yield make_table(
            f"pairwise_p_{'others_' if others else ''}{memory}",
            f"Tests{' of other approaches' if others else ''}, {memory_name(main.study, memory)}",
            "Two-sided Mann-Whitney U tests of the average scores; p adjusted by "
            f"Benjamini-Hochberg over the table. Bold: at most {statistics.SIGNIFICANCE}. "
            f"{warning}",
            frame.assign(
                text=frame["p_adjusted"].map(lambda p: rounded(p, 3)),
                css=marked(frame["p_adjusted"] <= statistics.SIGNIFICANCE),
            ),
            ["first", "second", "source"],
            "task",
            first=main.approaches,
            second=main.approaches,
            task=main.tasks,
        )


def correlations(findings: Findings) -> Table:
    """Kendall's tau between curvature and average score, beside the paper's."""
    paper = published.curvature_correlations()
    lines = []
    for ours in findings.correlations:
        tau, p = paper.get(ours.task, (None, None))
        lines += [
            (ours.task, "tau", ours.tau, 2),
            (ours.task, "paper's tau", tau, 2),
            (ours.task, "p", ours.p_adjusted, 3),
            (ours.task, "paper's p", p, 3),
            (ours.task, "instances", ours.instances, 0),
        ]
    frame = pd.DataFrame(lines, columns=["task", "statistic", "value", "digits"])
    is_bold = frame["statistic"].str.endswith("p") & (frame["value"] <= statistics.SIGNIFICANCE)
    text = [rounded(*cell) for cell in zip(frame["value"], frame["digits"], strict=True)]
    return make_table(
        "curvature_correlation",
        "Curvature and score",
        f"Kendall's tau between the curvature of the state's path and the average score, over "
        f"{POOLED}, selected by {findings.selection}; p by normal approximation, adjusted by "
        f"Benjamini-Hochberg over the tasks. Bold: at most {statistics.SIGNIFICANCE}.",
        frame.assign(text=text, css=marked(is_bold)).drop(columns="digits"),
        ["task"],
        "statistic",
    )


def curvatures(findings: Findings) -> Table:
    """The curvature of every approach: the median and the range of its trials."""
    groups = findings.instances.groupby(["task", "approach"])["curvature"]
    frame = groups.agg(["median", "min", "max", "count"]).reset_index()
    cells = zip(frame["median"], frame["min"], frame["max"], frame["count"], strict=True)
    text = [
        f"{median:.2f} ({least:.2f} to {most:.2f})" if trials > 1 else f"{median:.2f}"
        for median, least, most, trials in cells
    ]
    return make_table(
        "curvature",
        "Curvature by approach",
        f"Median over trials and, in brackets, their range; selected by {findings.selection}.",
        frame.assign(text=text),
        ["task"],
        "approach",
        task=findings.tasks,
        approach=findings.approaches,
    )


def explained_variances(findings: Findings) -> Table:
    """The share of the variance of the states that the principal components explain."""
    pooled = findings.instances[findings.instances["approach"].isin(published.STATEFUL)]
    ours = pooled.groupby("task")["explained_variance"].mean()
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
        task=findings.tasks,
    )


def runs(study: Study) -> Table:
    """How long every run was trained, and which of its iterations each rule selected."""
    selected = study.results.groupby(["run_id", "selection"])["iteration"].last().unstack()
    selected = selected.reindex(columns=list(study.selections)).add_prefix("selected by ")
    frame = study.runs.join(selected.astype("Int64")).reset_index()
    labels = ["task", "approach", "seed", "run_id"]
    lines = frame.astype(object).melt(labels, var_name="fact", value_name="value")
    return make_table(
        "runs",
        "Every run",
        "How far it was trained, and the iteration that each selection rule chose.",
        lines.assign(text=lines["value"].dropna().astype(str)),
        labels,
        "fact",
    )
