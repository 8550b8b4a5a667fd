"""Tables of maximum lengths: beside the paper's, by rule, memory, controller and iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import pandas as pd

from constrained_dnc import published
from constrained_dnc.report.findings import (
    FEW_TRIALS,
    KEY,
    Findings,
    beside_paper,
    memory_name,
)
from constrained_dnc.report.tables import (
    BOLD,
    Number,
    Table,
    is_largest,
    make_table,
    percent,
    rounded,
)
from constrained_dnc.results import sort_results

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
