"""Facts, budget and gaps of a study, in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from constrained_dnc.config import PAPER, WITHOUT_EFFECT, as_dict
from constrained_dnc.report import published
from constrained_dnc.report.findings import Findings, memory_name
from constrained_dnc.report.tables import percent, rounded
from constrained_dnc.study import Study


def budget_warning(study: Study) -> str:
    """Where the study falls short of the paper's budget or settings; empty if it does not."""
    iterations = [*study.runs["iterations"]] or [count for _, count in study.requested.values()]
    trials, others, parts = trial_counts(study), other_settings(study), []
    if min(iterations, default=0) < published.ITERATIONS:
        paper = thousands(published.ITERATIONS)
        parts.append(f"{span(iterations)} of the paper's {paper} iterations")
    if min(trials, default=0) < published.TRIALS:
        parts.append(f"{span(trials)} of its {published.TRIALS} trials")
    if others:
        parts.append(f"other settings: {', '.join(others)}")
    meaning = (
        "Generalisation to longer inputs comes and goes during training and varies between trials."
    )
    return f"Not the paper's budget: {'; '.join(parts)}. {meaning}" if parts else ""


def trial_counts(study: Study) -> list[int]:
    """How many trials every requested task and approach has."""
    counts = study.runs.groupby(["task", "approach"]).size()
    return [int(counts.get(key, 0)) for key in study.requested]


def other_settings(study: Study) -> list[str]:
    """The settings that are not the paper's, each with both values."""
    ours = as_dict(study.config)
    papers = {"model": as_dict(PAPER.model), "training": as_dict(PAPER.training)}
    return [
        f"{part}.{name} {ours[part][name]} (paper: {value})"
        for part, settings in papers.items()
        for name, value in settings.items()
        if ours[part][name] != value and name not in WITHOUT_EFFECT
    ]


def facts(findings: Findings) -> dict[str, str]:
    """What was run."""
    study, requested = findings.study, findings.study.requested.values()
    first, last = study.training_lengths
    trials, iterations = span(trial_counts(study)), span(study.runs["iterations"])
    papers = (f"; paper: {published.TRIALS}", f"; paper: {thousands(published.ITERATIONS)}")
    paper_trials, paper_iterations = papers if findings.is_comparable else ("", "")
    return {
        "tasks": ", ".join(findings.tasks),
        "approaches": ", ".join(findings.approaches),
        "runs": f"{len(study.runs)} with results, {sum(n for n, _ in requested)} requested",
        "seeds": f"{trials} per task and approach{paper_trials}",
        "iterations": f"{iterations} (requested: {span(count for _, count in requested)}"
        f"{paper_iterations})",
        "memories": ", ".join(memory_name(study, memory) for memory in study.memories),
        "training lengths": f"{first} to {last}",
        "selection rules": "; ".join(rule_meaning(rule, study) for rule in study.selections),
    }


def rule_meaning(rule: str, study: Study) -> str:
    """What a selection rule selects."""
    length, window = study.unseen_length, study.config.training.window
    mean = f"running mean of {window} measurements"
    return {
        "unseen": f"unseen, the paper's: the lowest {mean} of the loss at length {length}",
        "seen": f"seen: the lowest {mean} of the loss at training lengths",
        "score": f"score: the highest {mean} of the score at length {length}, spikes left out",
    }.get(rule, rule)


def problems(study: Study) -> dict[str, list[str]]:
    """Runs that failed, diverged, skipped updates or are missing: sentences by heading."""
    records: list[Any] = [*study.failures, *study.runs.to_dict("records")]
    runs = [("{task}, {approach}, trial {seed}".format(**run), run) for run in records]
    return {
        "Failed": [f"{name}: {run['reason']}" for name, run in runs if "reason" in run],
        "Diverged (counted with the parameters selected before)": [
            f"{name}: after {run['iterations']} iterations"
            for name, run in runs
            if run.get("status") == "diverged"
        ],
        "Skipped updates (non-finite gradients)": [
            f"{name}: {run['skipped_updates']}" for name, run in runs if run.get("skipped_updates")
        ],
        "Missing": study.missing(),
    }


def unseen_scores(findings: Findings) -> str:
    """The score of every seed at the unseen length; empty for a study of more than one task."""
    length, parts = findings.study.unseen_length, []
    for key in findings.keys([findings.trained_memory], findings.tasks[:1]):
        curve = findings.curves[key]
        if length in curve:
            parts.append(f"{key[2]} {', '.join(map(percent, curve[length]))} %")
    if len(findings.tasks) != 1 or not parts:
        return ""
    longest = findings.study.training_lengths[1]
    return f"Correct at length {length} (trained up to {longest}), each seed: {'; '.join(parts)}."


def unlearnt(findings: Findings) -> str:
    """Which seeds do not solve their training lengths, in a sentence; empty if all do."""
    poor = []
    for key in findings.keys([findings.trained_memory], findings.tasks):
        seeds = [
            f"seed {seed} ({rounded(100 * score, 1)} %)"
            for seed, score in findings.unlearnt(key).items()
        ]
        poor += [f"{', '.join(key[1:])}: {', '.join(seeds)}"] if seeds else []
    return f"Below 95 % at training lengths: {'; '.join(poor)}." if poor else ""


def thousands(count: int) -> str:
    """
    >>> thousands(300000)
    '300 000'
    """
    return f"{count:,}".replace(",", " ")


def span(numbers: Iterable[int]) -> str:
    """
    >>> span([3, 1, 2]), span([7]), span([])
    ('1 to 3', '7', '0')
    """
    ordered = sorted({*numbers}) or [0]
    return " to ".join(thousands(number) for number in dict.fromkeys((ordered[0], ordered[-1])))
