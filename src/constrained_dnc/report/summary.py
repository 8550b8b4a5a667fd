"""What a study is and how far it got, in words."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from constrained_dnc import published
from constrained_dnc.config import PAPER
from constrained_dnc.errors import printable
from constrained_dnc.report import lengths, selection
from constrained_dnc.report.cells import Cell
from constrained_dnc.report.curves import extended_size
from constrained_dnc.report.findings import Findings, find
from constrained_dnc.report.wording import DASH, listed, plural, rounded, span, thousands
from constrained_dnc.study import Study, read_study

SETTING_NAMES = {
    "model.memory_size": "slots",
    "model.word_size": "slot width",
    "model.num_reads": "read heads",
    "model.hidden_size": "controller width",
    "model.clip_value": "clip of values",
    "model.forget_bias": "forget bias",
    "training.batch_size": "batch",
    "training.learning_rate": "learning rate",
    "training.beta_1": "beta 1",
    "training.beta_2": "beta 2",
    "training.epsilon": "epsilon",
    "training.clip_norm": "clip of gradients",
    "training.min_length": "shortest input in training",
    "training.max_length": "longest input in training",
    "training.unseen_length": "length of selection",
    "training.measure_every": "iterations between measurements",
    "training.window": "measurements in the running mean",
}
"""What a run's outcome depends on beside task, approach, seed and iterations."""


def budget_warning(findings: Findings) -> str:
    """What a budget below the paper's, or other settings, mean; empty for the paper's own."""
    trials, iterations = findings.found_trials, findings.found_iterations
    fewer = []
    if iterations[0] < published.ITERATIONS:
        whole = thousands(published.ITERATIONS)
        fewer.append(f"{span(iterations, thousands)} of the paper's {whole} iterations")
    if trials[0] < published.TRIALS:
        asked = findings.asked_trials
        so_far = f" ({span(asked)} asked for)" if asked != trials else ""
        fewer.append(f"{_trials(findings)} instead of {published.TRIALS}{so_far}{_none(findings)}")
    others = other_settings(findings)
    if not fewer and not others:
        return ""
    head = f"Reduced budget: {', '.join(fewer)}. " if fewer else ""
    told = "Settings" if fewer else "Other settings: those"
    settings = f"{told} that are not the paper's: {', '.join(others)}. " if others else ""
    meaning = (
        "Generalisation to longer inputs comes late in training and varies between trials: this "
        "study shows that the machinery works, not whether a claim of the paper holds."
    )
    return head + settings + meaning


def _trials(findings: Findings) -> str:
    """How many trials there are of what was begun."""
    first, last = findings.begun_trials
    return f"{first} to {plural(last, 'trial')}" if first < last else plural(last, "trial")


def _none(findings: Findings) -> str:
    """What was asked for and not begun."""
    asked, missing = findings.study.requested, findings.not_begun
    if not missing or len(missing) == len(asked):
        return ""
    if len(missing) > 3:
        return f", none yet of {len(missing)} of {len(asked)} pairs of task and approach"
    named = [printable(f"{task} with {approach}") for task, approach in missing]
    return f", none yet of {listed(named)}"


def other_settings(findings: Findings) -> list[str]:
    """The settings of the study that are not the paper's, each with both values."""
    paper = {f"model.{name}": value for name, value in asdict(PAPER.model).items()}
    paper |= {f"training.{name}": value for name, value in asdict(PAPER.training).items()}
    ours = {"model.memory_size": findings.study.memory_size, **findings.study.settings}
    return [
        f"{name} {_value(ours[key])} (paper: {_value(paper[key])})"
        for key, name in SETTING_NAMES.items()
        if key in ours and key in paper and ours[key] != paper[key]
    ]


def _value(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def facts(findings: Findings) -> dict[str, str]:
    """What was run."""
    study = findings.study
    planned = sum(trials for trials, _ in study.requested.values())
    trained = study.training_lengths
    done = sorted({run.iterations for run in study.runs.reset_index().itertuples()})
    longest = f"; trained so far: {span((done[0], done[-1]), thousands)}" if done else ""
    return {
        "tasks": ", ".join(findings.tasks) or DASH,
        "approaches": ", ".join(findings.approaches) or DASH,
        "runs": f"{len(study.runs)} with results, {planned} asked for",
        "trials": f"{span(findings.begun_trials)} per task and approach{_none(findings)} "
        f"(asked for: {span(findings.asked_trials)}; paper: {published.TRIALS})",
        "iterations": span(findings.asked_iterations, thousands)
        + f" asked for (paper: {thousands(published.ITERATIONS)}){longest}",
        "slots": str(study.memory_size)
        + (f", extended to {extended_size(study)}" if extended_size(study) else ""),
        "training lengths": f"{DASH if trained is None else span(trained)} "
        f"(paper: {span(published.TRAINING_LENGTHS)})",
        "selection": _selection(study),
    }


def _selection(study: Study) -> str:
    if len(study.selections) == 1:
        return selection.sentence(study.selections[0], study)
    return f"by {listed(study.selections)} (see below)" if study.selections else DASH


def runs_to_look_at(findings: Findings) -> list[tuple[str, list[str]]]:
    """Headings and sentences about what failed, diverged, skipped updates or is missing."""
    study = findings.study
    diverged = [run for run in study.runs.reset_index().itertuples() if run.status == "diverged"]
    skipped = [run for run in study.runs.reset_index().itertuples() if run.skipped_updates]
    return [
        (
            "Failed",
            [
                f"{failure.get('run_id')} ({failure.get('task')}, {failure.get('approach')}, trial "
                f"{failure.get('seed')}): {failure.get('reason')}, attempts: "
                f"{failure.get('attempts')}"
                for failure in study.failures
            ],
        ),
        (
            "Diverged (counted with the parameters selected before)",
            [
                f"{_named(run)}: {run.status} after {plural(run.iterations, 'iteration')}"
                for run in diverged
            ],
        ),
        (
            "With skipped updates (non-finite gradients)",
            [f"{_named(run)}: {plural(run.skipped_updates, 'update')} skipped" for run in skipped],
        ),
        ("Missing", study.missing()),
    ]


def _named(run: Any) -> str:
    return f"{run.run_id} ({run.task}, {run.approach}, trial {run.seed})"


def provenance(findings: Findings) -> dict[str, str]:
    """When the study was begun; where and with which versions it was last asked for."""
    request = findings.study.request
    return {
        "begun on": str(request.get("created", DASH)),
        "last asked for on": _listed_facts(request.get("platform", DASH)),
        **{name: str(version) for name, version in dict(request.get("versions") or {}).items()},
    }


def _listed_facts(found: object) -> str:
    if not isinstance(found, dict):
        return str(found)
    return ", ".join(f"{name} {value}" for name, value in found.items())


def study_name(study: Study) -> str:
    """The name of its folder, and the preset where that says something else."""
    name, preset = study.path.resolve().name, study.request.get("preset")
    return name if preset in (None, name) else f"{name} (preset {preset})"


def terminal_table(study: str | Path | Findings) -> Group:
    """Maximum lengths beside the paper's, and what the budget means, for a terminal."""
    findings = study if isinstance(study, Findings) else find(read_study(study))
    title = Text(f"Maximum lengths by the rule {findings.selection}: ours (paper's)", "italic")
    table = RichTable(box=SIMPLE, pad_edge=False, collapse_padding=True)
    table.add_column("task", no_wrap=True)
    for name in (*findings.approaches, "factor"):
        header = name.replace("-baseline", "\nbaseline").replace("+", "\n+")
        table.add_column(Text(printable(header)), justify="right", overflow="fold")
    for extended in (False, True):
        if not findings.at(extended).curves:
            continue
        if extended:
            table.add_section()
            table.add_row(f"{extended_size(findings.study)} slots:")
        for task, cells in lengths.max_lengths(findings, extended).rows:
            table.add_row(Text(printable(task)), *map(_terminal_cell, cells))
    sentences = [*unlearned(findings), budget_warning(findings)]
    return Group(title, table, *(Text(sentence) for sentence in sentences if sentence))


def unlearned(findings: Findings) -> list[str]:
    """A sentence on those that do not solve their training lengths, if there are any."""
    found = [
        f"{printable(', '.join(key))} ({math.floor(100 * each.training_score)} %)"
        for key, each in findings.plain.longest.items()
        if each.training_score < published.MASTERED
    ]
    least = rounded(100 * published.THRESHOLD, 0)
    return [f"Below {least} % at training lengths: {listed(found)}."] if found else []


def _terminal_cell(cell: Cell) -> Text:
    return Text.assemble((cell.ours, "bold" if cell.bold else ""), f" ({cell.paper})")
