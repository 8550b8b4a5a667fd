"""The interactive charts of the page: what Plotly is told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from constrained_dnc.analysis.statistics import THRESHOLD
from constrained_dnc.report.drawing import colour, dash
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.wording import file_name
from constrained_dnc.study import Curves

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


def chips(findings: Findings) -> list[Chip]:
    """One per approach that has a curve."""
    shown = {name for _, name in findings.plain.curves}
    return [
        Chip(name, colour(name), colour(name) if dash(name) == "-" else "none")
        for name in findings.approaches
        if name in shown
    ]


def groups(findings: Findings) -> list[Group]:
    """The charts without and with memory extension."""
    found = []
    for extended in (False, True):
        tasks = _tasks(findings, extended)
        if tasks:
            slots = findings.study.extended_memory_size if extended else findings.study.memory_size
            name = "extended memory" if extended else "the memory it was trained with"
            charts = [
                Chart(_id(task, extended), task, f"score against length, {task}, {slots} slots")
                for task in tasks
            ]
            found.append(Group(f"With {name} ({slots} slots)", tuple(charts)))
    return found


def data(findings: Findings) -> list[dict[str, object]]:
    """Everything that is drawn, as JSON values."""
    study = findings.study
    trained = study.training_lengths
    return [
        {
            "id": _id(task, extended),
            "log": extended,
            "slots": [
                size
                for size in (study.memory_size, study.extended_memory_size)
                if size and (extended or size == study.memory_size)
            ],
            "threshold": 100 * THRESHOLD,
            "training": None if trained is None else list(trained),
            "series": [
                _series(findings.at(extended).curves[task, name])
                for name in findings.approaches
                if (task, name) in findings.at(extended).curves
            ],
        }
        for extended in (False, True)
        for task in _tasks(findings, extended)
    ]


def _series(curve: Curves) -> dict[str, object]:
    complete = ~np.isnan(curve.scores).any(axis=0)
    low, median, high = 100 * np.quantile(curve.scores[:, complete], [0.25, 0.5, 0.75], axis=0)
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


def _tasks(findings: Findings, extended: bool) -> list[str]:
    found = {task for task, _ in findings.at(extended).curves}
    return [task for task in findings.tasks if task in found]


def _id(task: str, extended: bool) -> str:
    return f"chart-{file_name(task)}-{'extended' if extended else 'plain'}"
