"""The interactive charts of the page: what Plotly is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from constrained_dnc.choices import MEMORIES, memory_names
from constrained_dnc.published import THRESHOLD
from constrained_dnc.report.curves import Curves, extended_size
from constrained_dnc.report.drawing import colour, dash
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.wording import file_name, over_trials

DASHES = {"-": "solid", "--": "dash", ":": "dot"}


@dataclass(frozen=True)
class Chip:
    """A button that shows or hides an approach."""

    approach: str
    colour: str
    fill: str


@dataclass(frozen=True)
class Chart:
    """The place of a chart on the page."""

    id: str
    task: str
    label: str


@dataclass(frozen=True)
class Group:
    """Charts under one heading."""

    title: str
    charts: tuple[Chart, ...]


def chips(rules: Sequence[Findings]) -> list[Chip]:
    """One per approach that has a curve."""
    shown = {name for findings in rules for _, name in findings.plain.curves}
    return [
        Chip(name, colour(name), colour(name) if dash(name) == "-" else "none")
        for name in rules[0].approaches
        if name in shown
    ]


def spread(rules: Sequence[Findings]) -> str:
    """What lines and bands are, for the trials there are."""
    counts = [
        curve.trials
        for findings in rules
        for evaluation in findings.memories.values()
        for curve in evaluation.curves.values()
    ]
    return over_trials(counts) if counts else ""


def groups(rules: Sequence[Findings]) -> list[Group]:
    """The charts of every kind of memory."""
    study = rules[0].study
    titles = {
        "trained": f"With the {study.memory_size} slots of training",
        "extended": f"With {extended_size(study)} slots",
        "growing": f"With a growing memory (from {study.memory_size} slots on)",
    }
    names = memory_names(study.memory_size, extended_size(study))
    found = []
    for memory in MEMORIES:
        charts = [
            Chart(_id(task, memory), task, f"score against length, {task}, {names[memory]}")
            for task in _tasks(rules, memory)
        ]
        if charts:
            found.append(Group(titles[memory], tuple(charts)))
    return found


def data(rules: Sequence[Findings]) -> list[dict[str, object]]:
    """Everything that is drawn, as JSON values; the curves of every selection rule."""
    study = rules[0].study
    trained = study.training_lengths
    sizes = {"trained": [study.memory_size], "growing": [study.memory_size]}
    sizes["extended"] = [size for size in (study.memory_size, extended_size(study)) if size]
    return [
        {
            "id": _id(task, memory),
            "log": memory != "trained",
            "slots": sizes[memory],
            "threshold": 100 * THRESHOLD,
            "training": None if trained is None else list(trained),
            "rules": {
                findings.selection: [
                    _series(findings.memories[memory].curves[task, name])
                    for name in findings.approaches
                    if (task, name) in findings.memories[memory].curves
                ]
                for findings in rules
            },
        }
        for memory in MEMORIES
        for task in _tasks(rules, memory)
    ]


def _series(curve: Curves) -> dict[str, object]:
    complete = ~np.isnan(curve.scores).any(axis=0)
    low, median, high = 100 * curve.band[:, complete]
    return {
        "approach": curve.approach,
        "colour": colour(curve.approach),
        "dash": DASHES[dash(curve.approach)],
        "trials": curve.trials,
        "lengths": curve.lengths[complete].tolist(),
        "low": np.round(low, 2).tolist(),
        "median": np.round(median, 2).tolist(),
        "high": np.round(high, 2).tolist(),
    }


def _tasks(rules: Sequence[Findings], memory: str) -> list[str]:
    found = {task for findings in rules for task, _ in findings.memories[memory].curves}
    return [task for task in rules[0].tasks if task in found]


def _id(task: str, memory: str) -> str:
    return f"chart-{file_name(task)}-{'plain' if memory == 'trained' else memory}"
