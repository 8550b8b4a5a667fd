"""The selection rules side by side: what each is, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.choices import PAPER_RULE
from constrained_dnc.config import SPIKE_FACTOR
from constrained_dnc.report.cells import Table
from constrained_dnc.report.drawing import Drawing
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.lengths import longest_cell
from constrained_dnc.report.wording import file_name, listed, rounded, span
from constrained_dnc.study import Study

DISAGREEMENT = 0.05
"""Scores at training lengths that differ by more are reported."""


def sentence(rule: str, study: Study) -> str:
    """What a rule selects, in one sentence."""
    length = study.unseen_length
    at = "the unseen length" if length is None else f"length {length}"
    window = study.settings.get("training.window")
    mean = "running mean" if window is None else f"running mean of {window} measurements"
    return {
        "unseen": f"unseen, the paper's rule: the lowest {mean} of the loss at {at} "
        f"(paper: {published.UNSEEN_LENGTH}), which is not in training.",
        "seen": f"seen: the lowest {mean} of the loss at training lengths, no other length used.",
        "score": f"score: the highest {mean} of the score at {at}, from calm moments only, when "
        f"the loss at training lengths is at most {SPIKE_FACTOR:g} times its running median.",
    }.get(rule, f"{rule}.")


Shown = TypeVar("Shown", Table, Drawing)


def captioned(shown: Shown, rule: str) -> Shown:
    """The same with its rule in the caption."""
    whose = "the paper's" if rule == PAPER_RULE else "not the paper's"
    told = f"Parameters selected by the rule {rule}, {whose}."
    return replace(shown, caption=f"{shown.caption} {told}")


def by_other_rule(shown: Shown, rule: str) -> Shown:
    """The same kind of table or figure for another rule than the first."""
    return replace(
        captioned(shown, rule),
        name=f"{shown.name}_{file_name(rule)}_selection",
        title=f"{shown.title}, selected by {rule}",
    )


def comparison(rules: Sequence[Findings]) -> Table:
    """Maximum lengths of all rules beside each other, a row per task and approach."""
    main = rules[0]
    paper = published.max_lengths(extended=False)
    rows, records = [], []
    for task in main.tasks:
        for approach in main.approaches:
            key = (task, approach)
            if not any(key in findings.plain.longest for findings in rules):
                continue
            cells = []
            for findings in rules:
                found = findings.plain.longest.get(key)
                theirs = paper.get(key) if findings is main else None
                # the paper has the first rule only
                cell, values = longest_cell(found, theirs, is_compared=findings is main)
                cells.append(cell)
                about = {"task": task, "approach": approach, "selection": findings.selection}
                records.append({**about, **values})
            rows.append((f"{task}, {approach}", tuple(cells)))
    return Table(
        "selection_rules",
        "Maximum lengths by selection rule",
        "With the slots of training, as in the table of maximum lengths. The paper has the first "
        "rule only.",
        tuple(findings.selection for findings in rules),
        tuple(rows),
        tuple(records),
    )


def disagreements(rules: Sequence[Findings]) -> list[str]:
    """A sentence for every run whose rules differ by more than `DISAGREEMENT`."""
    trained = rules[0].study.training_lengths
    if trained is None:
        return []
    scores: dict[str, dict[str, float]] = {}
    for findings in rules:
        for run_id, score in _training_scores(findings, trained).items():
            scores.setdefault(run_id, {})[findings.selection] = score
    told = []
    for run_id, by_rule in scores.items():
        if max(by_rule.values()) - min(by_rule.values()) > DISAGREEMENT:
            run = rules[0].study.runs.loc[run_id]
            parts = [f"{rounded(100 * score, 1)} % by {rule}" for rule, score in by_rule.items()]
            told.append(
                f"{run.task}, {run.approach}, trial {run.seed}: {listed(parts)} at lengths "
                f"{span(trained)}."
            )
    return told


def _training_scores(findings: Findings, trained: tuple[int, int]) -> Mapping[str, float]:
    """By run, the mean score at training lengths."""
    found: dict[str, float] = {}
    for curve in findings.plain.curves.values():
        for trial, run_id in enumerate(curve.run_ids):
            score = statistics.training_score(curve.scores[[trial]], curve.lengths, trained)
            if not np.isnan(score):
                found[run_id] = score
    return found
