"""Beyond the paper: what a larger memory does, by kind of memory and look-up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.choices import EXTENSION, MEMORIES, Memory, memory_names
from constrained_dnc.config import EvaluationConfig, parse_lengths
from constrained_dnc.report.cells import Table
from constrained_dnc.report.curves import extended_size
from constrained_dnc.report.drawing import (
    DOTS_TOLD,
    MEMORY_COLOURS,
    Drawing,
    draw_curve,
    finish_panel,
    grid,
    label_outside,
    lines_told,
    log_lengths,
    mark_slots,
)
from constrained_dnc.report.findings import Findings, Key, counted
from constrained_dnc.report.lengths import comparable_lengths, has_intervals, longest_cell
from constrained_dnc.report.wording import file_name, label, listed, over_trials, rounded

NOTICEABLE = 0.05
"""A score at training lengths that falls by more is harm, whatever the maximum length is."""
VERBS = {
    "harmed": ("harm", "harms"),
    "unchanged": ("do not change", "does not change"),
    "extended": ("extend", "extends"),
    "failing": ("do not help", "does not help"),
}
LARGER = MEMORIES[1:]


def was_enlarged(findings: Findings) -> bool:
    """Whether anything was evaluated with another memory than that of training."""
    return any(findings.memories[kind].curves for kind in LARGER)


def lengths_by_memory(findings: Findings) -> Table:
    """Maximum lengths of every task and approach, a column per kind of memory."""
    kinds = [kind for kind in MEMORIES if findings.memories[kind].curves]
    paper = {"trained": published.max_lengths(False), "extended": published.max_lengths(True)}
    rows, records = [], []
    for task in findings.tasks:
        for approach in findings.approaches:
            key = (task, approach)
            if not any(key in findings.memories[kind].longest for kind in kinds):
                continue
            cells = []
            for kind in kinds:
                found = findings.memories[kind].longest.get(key)
                theirs = paper.get(kind, {}).get(key)
                cell, values = longest_cell(found, theirs, is_compared=theirs is not None)
                cells.append(cell)
                records.append({"task": task, "approach": approach, "memory": kind, **values})
            rows.append((f"{task}, {approach}", tuple(cells)))
    names = _names(findings)
    interval = "its interval over trials and " if has_intervals(findings.plain.longest) else ""
    return Table(
        "max_length_by_memory",
        "Maximum lengths by memory",
        f"{_growing(findings)}Approaches with +used look up over used slots. "
        f"Beside each length: {interval}the score at training lengths.",
        tuple(names[kind] for kind in kinds),
        tuple(rows),
        tuple(records),
    )


def effects(findings: Findings) -> list[str]:
    """One sentence per task: whom a larger memory harms, does not change or extends."""
    return [_sentence(findings, task) for task in findings.tasks]


def effect_here(findings: Findings, kind: str, key: Key) -> tuple[str, str] | None:
    """What a larger memory does to an approach on a task, and from which length to which.

    Lengths are compared as far as both memories were evaluated at them.
    """
    trained, larger = findings.plain, findings.memories[kind]
    if key not in trained.curves or key not in larger.curves:
        return None
    curves = trained.curves[key], counted(larger.curves, larger.memory)[key]
    common = [np.isin(curve.lengths, other.lengths) for curve, other in (curves, curves[::-1])]
    before, after = comparable_lengths(*curves, larger.longest[key].length)
    lengths = findings.study.training_lengths
    if lengths is not None:
        scores = [
            statistics.training_score(curve.scores[:, shared], curve.lengths[shared], lengths)
            for curve, shared in zip(curves, common, strict=True)
        ]
        if scores[0] - scores[1] > NOTICEABLE:
            fall = " to ".join(f"{rounded(100 * score, 0)} %" for score in scores)
            return "harmed", f"{before} to {after}, at training lengths {fall}"
    return effect(before, after), f"{before} to {after}"


def effect_in_paper(key: Key) -> tuple[str, str] | None:
    """The same from the paper's tables, with lengths rounded down to its grid of lengths."""
    if key not in published.max_lengths(False):
        return None
    before, after = (published.max_lengths(extended)[key] for extended in (False, True))
    lengths = parse_lengths(EvaluationConfig().extension_lengths)
    comparable = max((length for length in lengths if length <= before), default=0)
    return effect(comparable, after), f"{before} to {after}"


def effect(before: int, after: int) -> str:
    """
    >>> effect(45, 15), effect(15, 15), effect(20, 150), effect(0, 0)
    ('harmed', 'unchanged', 'extended', 'failing')
    """
    if before == after:
        return "unchanged" if before else "failing"
    return "harmed" if after < before else "extended"


def drawings(findings: Findings) -> list[Drawing]:
    """One figure per task that was evaluated with more than one kind of memory."""
    study = findings.study
    return [
        Drawing(
            f"memory_{file_name(task)}",
            f"Score against length by memory, {task}",
            f"{over_trials(_counts(findings, task))} {_growing(findings)}Dashed: the slots of "
            f"training ({study.memory_size}). {lines_told(study.training_lengths)} {DOTS_TOLD}",
            partial(score_by_memory, findings, task),
        )
        for task in findings.tasks
        if _enlarged_approaches(findings, task)
    ]


def _counts(findings: Findings, task: str) -> list[int]:
    """The numbers of trials behind the lines of a figure."""
    names = _enlarged_approaches(findings, task)
    found = [each.curves.get((task, name)) for each in findings.memories.values() for name in names]
    return [curve.trials for curve in found if curve is not None]


def score_by_memory(findings: Findings, task: str) -> Figure:
    """A panel per approach, a line per kind of memory."""
    names = _enlarged_approaches(findings, task)
    columns = 2 if len(names) == 4 else min(3, len(names))
    figure, panels = grid(len(names), columns=columns, width=3.0, height=2.4)
    shown: dict[str, None] = {}
    for panel, name in zip(panels, names, strict=True):
        for kind in MEMORIES:
            curve = findings.memories[kind].curves.get((task, name))
            if curve is not None:
                draw_curve(panel, curve, MEMORY_COLOURS[kind], "-")
                shown[kind] = None
        finish_panel(panel, findings.study.training_lengths)
        log_lengths(panel)
        mark_slots(panel, findings.study.memory_size)
        panel.set_title(label(name), loc="left")
    label_outside(figure, "length", "score")
    names_of = _names(findings)
    handles = [
        Line2D([], [], color=MEMORY_COLOURS[kind], lw=2, label=names_of[kind])
        for kind in MEMORIES
        if kind in shown
    ]
    columns = len(handles) if len(names) > 1 else 1  # beside each other they need two panels
    figure.legend(handles=handles, loc="outside upper left", ncols=columns)
    return figure


def _enlarged_approaches(findings: Findings, task: str) -> list[str]:
    return [
        name
        for name in findings.approaches
        if (task, name) in findings.plain.curves
        and any((task, name) in findings.memories[kind].curves for kind in LARGER)
    ]


def _names(findings: Findings) -> dict[Memory, str]:
    return memory_names(findings.study.memory_size, extended_size(findings.study))


def _growing(findings: Findings) -> str:
    """What a growing memory is, where there is one."""
    if not findings.memories["growing"].curves:
        return ""
    return f"Growing: from {findings.study.memory_size} slots on, more where they run short. "


def _sentence(findings: Findings, task: str) -> str:
    keys = [(task, name) for name in findings.approaches]
    size, trained = extended_size(findings.study) or 0, findings.study.memory_size
    told = []
    for kind, subject, number in (
        ("extended", f"{size / trained:g} times the slots", 0),
        ("growing", "a growing memory", 1),
    ):
        found = {name: effect_here(findings, kind, (each, name)) for each, name in keys}
        if any(found.values()):
            told.append(f"here {subject} {_clauses(found, number)}")
    if not told:
        told.append("a larger memory was not tried here")
    paper = {name: effect_in_paper((task, name)) for name in published.APPROACHES}
    if any(paper.values()):
        told.append(f"in the paper {EXTENSION} times the slots {_clauses(paper, 0)}")
    return f"{task}: {'; '.join(told)}."


def _clauses(found: Mapping[str, tuple[str, str] | None], number: int) -> str:
    """Who is harmed, unchanged or extended, with a verb in the singular (1) or the plural (0)."""
    parts = []
    for kind, verbs in VERBS.items():
        names = [
            name if kind == "failing" else f"{name} ({told[1]})"
            for name, told in found.items()
            if told is not None and told[0] == kind
        ]
        if names:
            end = ", which fails either way" if kind == "failing" and len(names) == 1 else ""
            end = ", which fail either way" if kind == "failing" and len(names) > 1 else end
            parts.append(f"{verbs[number]} {listed(names)}{end}")
    return listed(parts)
