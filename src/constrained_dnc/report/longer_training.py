"""Studies that grew: how long every run was trained, and what more training brought."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from constrained_dnc.report.cells import Cell, Table
from constrained_dnc.report.drawing import Drawing, colour, dash, grid, label_outside, legend
from constrained_dnc.report.findings import Evaluation, Findings, evaluate
from constrained_dnc.report.lengths import has_intervals, note
from constrained_dnc.report.wording import DASH, label, thousands
from constrained_dnc.study import Study


def stages(study: Study) -> tuple[int, ...]:
    """The numbers of iterations at which runs that became longer were measured."""
    history: dict[str, set[int]] = {}
    columns = (study.history[name].tolist() for name in ("run_id", "iterations"))
    for run_id, iterations in zip(*columns, strict=True):
        history.setdefault(run_id, set()).add(iterations)
    return tuple(sorted({at for found in history.values() if len(found) > 1 for at in found}))


def evaluations(findings: Findings) -> dict[int, Evaluation]:
    """What was measured at every stage, with the slots of training."""
    study, rule = findings.study, findings.selection
    return {at: evaluate(study, "trained", rule, iterations=at) for at in stages(study)}


def runs(study: Study) -> Table:
    """How long every run was trained, and which of its iterations each rule selected."""
    rules = study.selections
    selected: dict[tuple[str, str], int] = {}
    columns = (study.results[name].tolist() for name in ("run_id", "selection", "iteration"))
    for run_id, rule, iteration in zip(*columns, strict=True):
        selected[run_id, rule] = iteration
    rows, records = [], []
    for run in sorted(study.runs.reset_index().itertuples(), key=lambda run: (run.task, run.approach, run.seed)):
        chosen = {rule: selected.get((run.run_id, rule)) for rule in rules}
        texts = [thousands(run.iterations), run.status, thousands(run.skipped_updates)]
        texts += [DASH if at is None else thousands(at) for at in chosen.values()]
        name = f"{run.task}, {run.approach}, trial {run.seed}"
        rows.append((name, tuple(Cell(text) for text in texts)))
        records.append(
            {
                "run_id": run.run_id,
                "task": run.task,
                "approach": run.approach,
                "trial": run.seed,
                "iterations": run.iterations,
                "status": run.status,
                "skipped_updates": run.skipped_updates,
                **{f"selected_by_{rule}": at for rule, at in chosen.items()},
            }
        )
    return Table(
        "runs",
        "How long every run was trained",
        "Iterations trained, how the run stands, updates that were skipped as not finite, and the "
        "iteration that each selection rule chose.",
        ("iterations", "status", "skipped", *(f"selected by {rule}" for rule in rules)),
        tuple(rows),
        tuple(records),
    )


def lengths_by_iterations(findings: Findings, stages: Mapping[int, Evaluation]) -> Table:
    """Maximum lengths at every stage of a study that grew."""
    rows, records = [], []
    for task in findings.tasks:
        for at, evaluation in stages.items():
            found = [evaluation.longest.get((task, name)) for name in findings.approaches]
            if not any(found):
                continue
            cells = [
                Cell(DASH) if each is None else Cell(str(each.length), note=note(each))
                for each in found
            ]
            rows.append((f"{task}, {thousands(at)}", tuple(cells)))
            records += [
                {
                    "task": task,
                    "iterations": at,
                    "approach": name,
                    "max_length": each.length,
                    "training_score": each.training_score,
                    "trials": each.trials,
                }
                for name, each in zip(findings.approaches, found, strict=True)
                if each is not None
            ]
    return Table(
        "max_length_by_iterations",
        "Maximum lengths by iterations of training",
        "With the slots of training, over the trials that were measured after so many iterations.",
        findings.approaches,
        tuple(rows),
        tuple(records),
    )


def drawings(findings: Findings, stages: Mapping[int, Evaluation]) -> list[Drawing]:
    """Maximum length against iterations, for a study that grew."""
    if not stages:
        return []
    many = any(has_intervals(evaluation.longest) for evaluation in stages.values())
    band = "; the band is the 95 % interval over trials" if many else ""
    return [
        Drawing(
            "max_length_vs_iterations",
            "Maximum length against iterations",
            "With the slots of training, over the trials that were measured after so many "
            f"iterations{band}.",
            partial(length_against_iterations, findings, stages),
        )
    ]


def length_against_iterations(findings: Findings, stages: Mapping[int, Evaluation]) -> Figure:
    """Maximum length against iterations, per task, with the interval over trials."""
    shown = {key for evaluation in stages.values() for key in evaluation.longest}
    tasks = [task for task in findings.tasks if any(of == task for of, _ in shown)]
    figure, panels = grid(len(tasks), columns=min(4, len(tasks)), width=2.9, height=2.5)
    names = [name for name in findings.approaches if any(of == name for _, of in shown)]
    for panel, task in zip(panels, tasks, strict=True):
        for name in names:
            key, shade = (task, name), colour(name)
            found = {at: each.longest[key] for at, each in stages.items() if key in each.longest}
            if found:
                at = list(found)
                ends = np.array(
                    [each.interval or (each.length, each.length) for each in found.values()]
                )
                panel.fill_between(at, ends[:, 0], ends[:, 1], color=shade, alpha=0.15, lw=0)
                lengths = [each.length for each in found.values()]
                panel.plot(at, lengths, color=shade, ls=dash(name), marker="o", ms=3.5, lw=1.6)
        panel.set_title(label(task), loc="left")
        panel.set_ylim(bottom=0)
        ticks = list(stages)[:: -(-len(stages) // 4)]
        panel.set_xticks(ticks, [thousands(at) for at in ticks])
        panel.margins(x=0.08)
    label_outside(figure, "iterations", "maximum length", unit="")
    legend(figure, names)
    return figure
