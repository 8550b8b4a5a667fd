"""The figures of the paper, drawn from a study: one function per figure.

Every function returns a Matplotlib figure; draw and save it inside `drawing.style()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from constrained_dnc import published
from constrained_dnc.analysis.embeddings import PHASES, embedding, phases_of
from constrained_dnc.analysis.state_space import DIMENSIONS
from constrained_dnc.colours import PHASE_COLOURS
from constrained_dnc.report.curves import extended_size
from constrained_dnc.report.drawing import (
    COLOURS,
    DOTS_TOLD,
    TIME_COLOURS,
    Drawing,
    colour,
    draw_curves,
    fill,
    grid,
    label_outside,
    legend,
    lines_told,
    log_lengths,
    mark_slots,
)
from constrained_dnc.report.findings import POOLED, Findings, Instances, best_and_worst
from constrained_dnc.report.wording import (
    file_name,
    label,
    over_trials,
    span,
)
from constrained_dnc.study.layout import BINS

LEAST_WIDTH = 4.0
"""In inches: title and legend stand side by side above however few panels."""
SIDE_BY_SIDE = 5
"""Approaches in a row, where each has a single panel."""
MODE_NAMES = {
    "write": ("write mode", "0 = by content, 1 = new slot"),
    "read": ("read mode", "0 = sequential, 1 = by content"),
}


def all_drawings(findings: Findings) -> list[Drawing]:
    """Every figure the study has something to show in."""
    return [
        *curve_drawings(findings),
        *_curvature_drawings(findings),
        *_trajectory_drawings(findings),
        *_mode_drawings(findings),
    ]


def curve_drawings(findings: Findings) -> Iterator[Drawing]:
    """Score against length, for the parameters of one selection rule."""
    study = findings.study
    plain, extended = (_spread(findings, extended) for extended in (False, True))
    lines = lines_told(study.training_lengths)
    slots = f"Dashed: the slots of training ({study.memory_size})"
    if plain:
        yield Drawing(
            "score_vs_length",
            "Score against length",
            f"{plain} {slots}. {lines}",
            lambda: score_against_length(findings, extended=False),
        )
    if extended:
        yield Drawing(
            "score_vs_length_extended_memory",
            "Score against length with extended memory",
            f"The same networks with {extended_size(study)} slots. {extended} {slots} and "
            f"these ({extended_size(study)}). {lines} {DOTS_TOLD}",
            lambda: score_against_length(findings, extended=True),
        )
    if any(("sort", name) in findings.plain.curves for name in published.SUPPLEMENT_C):
        yield Drawing(
            "peephole_vs_vanilla_lstm",
            "Peephole against vanilla LSTM (supplement C)",
            "The sort task. Solid: peephole LSTM and the stateful baseline. Dashed: the same "
            f"constraint on a vanilla LSTM. {plain} Upright: the slots of training "
            f"({study.memory_size}). {lines}",
            lambda: peephole_against_vanilla(findings),
        )


def _spread(findings: Findings, extended: bool) -> str:
    """What lines and bands are; empty without any."""
    curves = findings.at(extended).curves
    return over_trials(curve.trials for curve in curves.values()) if curves else ""


def _curvature_drawings(findings: Findings) -> Iterator[Drawing]:
    told = f"One dot per trained instance of {POOLED}. Mind the scales."
    if findings.instances:
        yield Drawing(
            "curvature_vs_score",
            "Curvature against score",
            told,
            lambda: curvature_against_score(findings, findings.instances),
        )
    if findings.other_instances:
        yield Drawing(
            "curvature_vs_score_others",
            "Curvature against score: other approaches",
            "One dot per trained instance of the approaches with a state that the paper does not "
            "pool. Mind the scales.",
            lambda: curvature_against_score(findings, findings.other_instances),
        )


def _trajectory_drawings(findings: Findings) -> list[Drawing]:
    length = findings.study.unseen_length
    at = "the unseen length of selection" if length is None else f"length {length}"
    return [
        Drawing(
            f"states_{file_name(task)}_{phase}",
            f"Cell states, {task}, {phase}",
            f"t-SNE of the cell states at {at} (reduced by PCA to at most {DIMENSIONS} "
            f"dimensions): {_trials_told(findings, task, approaches)} All samples overlaid; dots "
            "are states, lines are transitions, from dark to light with time.",
            partial(state_trajectories, findings, task, phase),
        )
        for task in findings.tasks
        if (approaches := _rows_with(findings, task, "curvature"))
        for phase in phases_of(task)
    ]


def _mode_drawings(findings: Findings) -> list[Drawing]:
    lengths = findings.study.training_lengths
    at = "the longest training length" if lengths is None else f"length {lengths[1]}"
    return [
        Drawing(
            f"{mode}_modes_{file_name(task)}",
            f"{MODE_NAMES[mode][0].capitalize()}s, {task}",
            f"Histograms at {at} ({MODE_NAMES[mode][1]}): "
            f"{_trials_told(findings, task, approaches)}",
            partial(memory_modes, findings, task, mode),
        )
        for task in findings.tasks
        if (approaches := _rows_with(findings, task, "write_mode_encoding"))
        for mode in MODE_NAMES
    ]


def _trials_told(findings: Findings, task: str, approaches: Sequence[str]) -> str:
    """Which trials a figure shows, and what stands above each."""
    best, worst = _most(findings, task, approaches)
    told = "one trial" if best == 1 else f"the {best} trials, the best first,"
    if worst:
        told = f"the {best} best trials and, of the others, the {worst} worst"
    averaged = span(findings.plain.averaged_lengths)
    return f"{told} per approach. Above each: its average score at lengths {averaged}."


def _most(findings: Findings, task: str, approaches: Sequence[str]) -> tuple[int, int]:
    """How many best and how many worst trials the approach with the most of them has."""
    sides = [best_and_worst(findings.ranked(task, name)) for name in approaches]
    best, worst = (max(len(side[index]) for side in sides) for index in (0, 1))
    return best, worst


def wanted_embeddings(findings: Findings) -> list[tuple[str, str]]:
    """The (run id, phase) that the t-SNE figures show."""
    return [
        (run_id, phase)
        for task in findings.tasks
        for approach in _rows_with(findings, task, "curvature")
        for runs in best_and_worst(findings.ranked(task, approach))
        for run_id in runs
        for phase in phases_of(task)
    ]


def score_against_length(findings: Findings, extended: bool) -> Figure:
    """Median score and band over trials, per task."""
    curves = findings.at(extended).curves
    tasks = [task for task in findings.tasks if any(of == task for of, _ in curves)]
    figure, panels = grid(len(tasks), columns=min(4, len(tasks)), width=3.3, height=2.5)
    for panel, task in zip(panels, tasks, strict=True):
        shown = [curves[task, name] for name in findings.approaches if (task, name) in curves]
        draw_curves(panel, shown, findings.study.training_lengths)
        mark_slots(panel, findings.study.memory_size)
        if extended and extended_size(findings.study):
            mark_slots(panel, extended_size(findings.study))
            log_lengths(panel)
        panel.set_title(label(task), loc="left")
    label_outside(figure, "length", "score")
    legend(figure, [name for name in findings.approaches if any(of == name for _, of in curves)])
    return figure


def peephole_against_vanilla(findings: Findings) -> Figure:
    """Supplement C: the constraints on a peephole and on a vanilla LSTM, sort task."""
    curves = findings.plain.curves
    order = ("stateful-baseline", "peephole", "compr", "reg", "compr+reg", *published.VANILLA)
    names = [name for name in order if ("sort", name) in curves]
    figure, panels = grid(1, columns=1, width=6.2, height=3.4)
    shown = [curves["sort", name] for name in names]
    draw_curves(panels[0], shown, findings.study.training_lengths)
    mark_slots(panels[0], findings.study.memory_size)
    panels[0].set_title("sort", loc="left")
    label_outside(figure, "length", "score")
    legend(figure, names)
    return figure


def curvature_against_score(findings: Findings, instances: Mapping[str, Instances]) -> Figure:
    """One dot per instance, per task."""
    tasks = [task for task in findings.tasks if task in instances]
    figure, panels = grid(len(tasks), columns=min(4, len(tasks)), width=2.9, height=2.5)
    seen: dict[str, None] = {}
    for panel, task in zip(panels, tasks, strict=True):
        found = instances[task]
        for name in dict.fromkeys(found.approaches):
            chosen = np.array(found.approaches) == name
            panel.scatter(
                found.curvature[chosen],
                100 * found.score[chosen],
                s=24,
                color=fill(name),
                edgecolor=colour(name),
                linewidth=1,
            )
            seen[name] = None
        panel.set_title(label(task), loc="left")
        panel.margins(0.12)
    label_outside(figure, "curvature", "average score")
    legend(figure, [name for name in findings.approaches if name in seen], dots=True)
    return figure


def state_trajectories(findings: Findings, task: str, phase: str) -> Figure:
    """t-SNE paths of the three best (left) and three worst (right) trials per approach."""
    approaches = _rows_with(findings, task, "curvature")
    figure, panels = _trial_grid(findings, task, approaches, size=1.55)
    for row, name in enumerate(approaches):
        scores = dict(findings.ranked(task, name))
        for panel, run_id in _trial_panels(findings, task, name, panels[row]):
            path = embedding(findings.study, run_id, phase)
            if path is None:
                _say_nothing(panel)
            else:
                _draw_paths(panel, path)
            panel.set_title(
                f"{100 * scores[run_id]:.0f} %", fontsize=7.5, fontweight="normal", pad=2
            )
    return figure


def memory_modes(findings: Findings, task: str, mode: str) -> Figure:
    """Histograms of the write or read mode in both phases, best and worst trials."""
    approaches = _rows_with(findings, task, f"{mode}_mode_encoding")
    figure, panels = _trial_grid(findings, task, approaches, size=1.45)
    edges = np.linspace(0, 1, BINS + 1)
    for row, name in enumerate(approaches):
        scores = dict(findings.ranked(task, name))
        for panel, run_id in _trial_panels(findings, task, name, panels[row]):
            keys = {f"{mode}_mode_{phase}": phase for phase in PHASES}
            found = findings.study.analysis(run_id, *keys)
            if not found:
                _say_nothing(panel)
            for key, counts in found.items():
                share = counts / max(counts.sum(), 1)
                shade = PHASE_COLOURS[keys[key]]
                panel.stairs(share, edges, fill=True, fc=(shade, 0.55), ec=shade, lw=0.9)
            panel.set_xlim(0, 1)
            panel.set_title(
                f"{100 * scores[run_id]:.0f} %", fontsize=7.5, fontweight="normal", pad=2
            )
            if row >= len(approaches) - (SIDE_BY_SIDE if panels.shape[1] == 1 else 1):
                panel.set_xticks([0, 1], ["0", "1"], fontsize=7)
    figure.supxlabel(MODE_NAMES[mode][1], fontsize=9, y=0.06 / figure.get_figheight(), va="bottom")
    handles = [Patch(color=PHASE_COLOURS[phase], alpha=0.75, label=phase) for phase in PHASES]
    figure.legend(handles=handles, loc="upper right", ncols=2, borderaxespad=0.1)
    return figure


def _rows_with(findings: Findings, task: str, array: str) -> list[str]:
    """The approaches with at least one run whose analysis has the array."""
    return [
        name
        for name in findings.approaches
        if any(findings.study.analysis(run, array) for run, _ in findings.ranked(task, name))
    ]


def _trial_grid(
    findings: Findings, task: str, approaches: Sequence[str], size: float
) -> tuple[Figure, np.ndarray]:
    """Empty panels, a row per approach: best trials, a gap, worst trials.

    With one trial each, the approaches stand side by side.
    """
    best, worst = _most(findings, task, approaches)
    is_single = (best, worst) == (1, 0)
    across = min(SIDE_BY_SIDE, len(approaches)) if is_single else best
    down = -(-len(approaches) // across) if is_single else len(approaches)
    ratios = [1.0] * across + ([0.25] if worst else []) + [1.0] * worst
    gap = 0.25 if is_single else 0.1
    # Margins in inches rather than a layout engine, which takes seconds for so many panels.
    width, height = size * sum(ratios) + gap * size * (across - 1) * is_single, size * down + 0.9
    width = max(width + 0.4, LEAST_WIDTH)
    edges = {"left": 0.3 / width, "right": 1 - 0.1 / width, "wspace": gap, "hspace": 0.18}
    edges |= {"bottom": 0.45 / height, "top": 1 - 0.5 / height}
    figure = Figure((width, height))
    grid = figure.subplots(down, len(ratios), squeeze=False, width_ratios=ratios, gridspec_kw=edges)
    for panel in grid.flat:
        panel.set(xticks=[], yticks=[])
        panel.set_visible(False)
    if is_single:
        grid = grid.reshape(-1, 1)[: len(approaches)]
    for row, name in enumerate(approaches):
        grid[row, 0].set_visible(True)
        grid[row, 0].set_ylabel(label(name), color=colour(name), fontweight="bold", fontsize=8.5)
    if worst:
        grid = np.delete(grid, best, axis=1)
    title = "one trial each" if is_single else "trials, the best first"
    title = "best trials on the left, worst on the right" if worst else title
    figure.suptitle(title, fontsize=9, x=0.3 / width, y=1 - 0.08 / height, ha="left", va="top")
    return figure, grid


def _trial_panels(
    findings: Findings, task: str, approach: str, row: np.ndarray
) -> Iterator[tuple[Axes, str]]:
    best, worst = best_and_worst(findings.ranked(task, approach))
    panels = [*row[: len(best)], *row[len(row) - len(worst) :]]
    for panel, run_id in zip(panels, [*best, *worst], strict=True):
        panel.set_visible(True)
        yield panel, run_id


def _say_nothing(panel: Axes) -> None:
    """The word in place of a run whose analysis is missing or damaged."""
    panel.text(0.5, 0.5, "no analysis", transform=panel.transAxes, ha="center", va="center", size=7)


def _draw_paths(panel: Axes, path: np.ndarray) -> None:
    """`path` is (time, batch, 2)."""
    steps = np.stack([path[:-1], path[1:]], axis=2).reshape(-1, 2, 2)
    when = np.repeat(np.linspace(0, 1, len(path) - 1), path.shape[1])
    panel.add_collection(
        LineCollection(list(steps), colors=TIME_COLOURS(when), lw=0.35, alpha=0.55, rasterized=True)
    )
    dots = path.reshape(-1, 2)
    panel.scatter(
        dots[:, 0], dots[:, 1], s=1.6, color=COLOURS["reg"], lw=0, zorder=3, rasterized=True
    )
    panel.margins(0.04)
    for spine in panel.spines.values():
        spine.set_visible(True)
