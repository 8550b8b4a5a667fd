"""Tables of maximum lengths: beside the paper's, by selection rule, by memory, by iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.report.findings import Findings, beside_paper, memory_name
from constrained_dnc.report.tables import (
    Number,
    Table,
    is_largest,
    make_table,
    marked,
    percent,
    rounded,
)

FEW_TRIALS = 5
"""Up to this many trials are listed one by one; of more, the interval of their median is shown."""
MEASURES = ("entries", "whole")
FACTOR = "factor"


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


def max_lengths(rules: Mapping[str, Findings], memory: str) -> Table:
    """Maximum lengths by right entries and by whole answers, beside the paper's, and factors."""
    main = next(iter(rules.values()))
    parts = []
    for rule, findings in beside_paper(rules).items():
        for measure in MEASURES if findings is main else ("entries",):
            lengths = _lengths(findings, measure, f"{rule}, {measure}")
            parts.append(_with_factor(lengths, memory, findings.trained_memory))
    extended = main.in_paper(memory)
    if extended is not None:
        parts.append(_with_factor(_paper_lengths(main), memory, main.trained_memory))
    parts.append(_training_scores(main, memory))
    frame = pd.concat(parts)
    frame = frame[frame["approach"].isin([*main.approaches, FACTOR])]
    is_bold = is_largest(frame, ["task", "measure"], "length") & ~frame["measure"].str.endswith("%")
    return make_table(
        f"max_length_{memory}",
        f"Maximum lengths, {memory_name(main.study, memory)}",
        "The longest input with at least 95 % right, by entries (the paper's measure) and by whole "
        f"answers: the median over trials{bracketed(main)}. A length whose floor reaches 95 % does "
        "not count; a trial that was given up fails at longer inputs. Factor: the longest of "
        "compr, reg and compr+reg over the stateful baseline with the slots of training. Bold: "
        "the longest of the paper's approaches.",
        frame.assign(css=marked(is_bold)),
        ["task", "measure"],
        "approach",
        task=main.tasks,
        approach=main.approaches,
    )


def lengths_by_rule(rules: Mapping[str, Findings]) -> Table:
    """Maximum lengths with the slots of training by every selection rule, as a robustness check."""
    main = next(iter(rules.values()))
    frame = pd.concat(
        _lengths(findings, measure, f"{rule}, {measure}")
        for rule, findings in rules.items()
        for measure in MEASURES
    )
    return make_table(
        "max_length_by_rule",
        "Maximum lengths by selection rule",
        f"With the slots of training{bracketed(main)}; entries: 95 % of the entries right, whole: "
        "of the answers. seen selects on training lengths alone.",
        frame[frame["memory"] == main.trained_memory],
        ["task", "approach"],
        "measure",
        task=main.tasks,
        approach=main.approaches,
    )


def lengths_by_memory(findings: Findings) -> Table:
    """Maximum lengths of every task and approach, two columns per memory."""
    parts = (_lengths(findings, measure, measure) for measure in MEASURES)
    frame = pd.concat(parts)
    names = {memory: memory_name(findings.study, memory) for memory in findings.memories}
    frame["measure"] = frame["memory"].map(names) + ", " + frame["measure"]
    size = findings.study.memory_size
    return make_table(
        "max_length_by_memory",
        "Maximum lengths by memory",
        f"The networks trained with {size} slots, run with other memories{bracketed(findings)}; "
        "entries: 95 % of the entries right, whole: of the answers. Growing: "
        f"from {size} slots on, more where they run short.",
        frame,
        ["task", "approach"],
        "measure",
        task=findings.tasks,
        approach=findings.approaches,
        measure=[f"{name}, {measure}" for name in names.values() for measure in MEASURES],
    )


def lengths_by_iterations(findings: Findings, stages: Mapping[int, Findings]) -> Table:
    """Maximum lengths at every stage of a study that was extended."""
    frame = pd.concat(
        _lengths(stage, "entries", "entries").assign(iterations=at) for at, stage in stages.items()
    )
    return make_table(
        "max_length_by_iterations",
        "Maximum lengths by iterations of training",
        f"With the slots of training, over the trials evaluated at the time{bracketed(findings)}.",
        frame[frame["memory"] == findings.trained_memory],
        ["task", "iterations"],
        "approach",
        task=findings.tasks,
        approach=findings.approaches,
    )


def bracketed(findings: Findings) -> str:
    """For captions: what the brackets beside a maximum length hold."""
    trials = findings.lengths["trials"].max() if len(findings.lengths) else 1
    if trials == 1:
        return ""
    interval = f", of more than {FEW_TRIALS} the 95 % bootstrap interval"
    return f" (in brackets each trial{interval if trials > FEW_TRIALS else ''})"


def _lengths(findings: Findings, measure: str, label: str) -> pd.DataFrame:
    """One line per memory, task and approach, labelled in the column `measure`."""
    frame = findings.lengths.reset_index()
    parts = {"length": "", "each": "_each", "low": "_low", "high": "_high"}
    columns = {name: frame[measure + part] for name, part in parts.items()}
    text = [with_trials(*cell) for cell in zip(*columns.values(), strict=True)]
    shown = frame[["memory", "task", "approach", "trials"]]
    return shown.assign(**columns, measure=label, text=text)


def _paper_lengths(findings: Findings) -> pd.DataFrame:
    """The paper's lengths of the study's tasks, laid out like ours."""
    sizes = {False: findings.trained_memory, True: str(10 * findings.study.memory_size)}
    lines = [
        {"memory": memory, "task": task, "approach": approach, "length": length}
        for extended, memory in sizes.items()
        for (task, approach), length in published.max_lengths(extended).items()
        if task in findings.tasks
    ]
    columns = ["memory", "task", "approach", "length"]
    frame = pd.DataFrame(lines, columns=columns)
    return frame.assign(measure="paper", text=frame["length"].astype(str))


def _with_factor(lengths: pd.DataFrame, memory: str, trained: str) -> pd.DataFrame:
    """The lengths with one memory, and per task the factor over the baseline as trained."""
    by_task = lengths.set_index(["memory", "task", "approach"])["length"]
    chosen = lengths[lengths["memory"] == memory]
    lines = []
    for task, rows in chosen.groupby("task"):
        baseline = by_task.get((trained, task, statistics.BASELINE))
        by_approach = dict(zip(rows["approach"], rows["length"], strict=True))
        factor = statistics.factor(by_approach, None if baseline is None else int(baseline))
        lines.append({"task": task, "length": factor, "text": rounded(factor, 1)})
    measure = lengths["measure"].iloc[0] if len(lengths) else ""
    factors = pd.DataFrame(lines, columns=["task", "length", "text"])
    return pd.concat([chosen, factors.assign(approach=FACTOR, memory=memory, measure=measure)])


def _training_scores(findings: Findings, memory: str) -> pd.DataFrame:
    frame = findings.lengths.reset_index()
    frame = frame[frame["memory"] == memory]
    first, last = findings.study.training_lengths
    return frame[["memory", "task", "approach"]].assign(
        measure=f"score at {first} to {last}, %",
        length=100 * frame["training_score"],
        text=frame["training_score"].map(percent),
    )
