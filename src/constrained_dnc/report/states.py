"""Figures of cell states, curvature against score, and memory modes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from constrained_dnc.analysis.embeddings import PHASES, embedding, phases_of
from constrained_dnc.analysis.memory_modes import BINS
from constrained_dnc.analysis.state_space import DIMENSIONS
from constrained_dnc.colours import GREEN, PHASE_COLOURS, colours_of
from constrained_dnc.report.drawing import Drawing, grid
from constrained_dnc.report.findings import Findings

# From dark to light with time; both ends stand out from either background.
TIME_COLOURS = LinearSegmentedColormap.from_list(
    "time", ["#3b0f70", "#8c2981", "#de4968", "#fe9f6d", "#f5d08f"]
)
MODES = {"write": "0 = by content, 1 = new slot", "read": "0 = sequential, 1 = by content"}
BEST = WORST = 3
TRIALS = (
    "The {} best trials of every approach and, right of a gap, the {} worst of the others, with "
    "their average scores. Selected by {}."
).format(BEST, WORST, "{}")


def drawings(findings: Findings) -> Iterator[Drawing]:
    """Every figure of states and modes that the analysed runs allow."""
    study, caption = findings.study, TRIALS.format(findings.selection)
    if len(findings.instances):
        yield Drawing(
            "curvature_vs_score",
            "Curvature against score",
            f"One dot per trial with a state. Selected by {findings.selection}.",
            partial(curvature_against_score, findings),
        )
    for task in findings.tasks:
        for phase in phases_of(task) if _analysed(findings, task, "curvature") else ():
            yield Drawing(
                f"states_{task}_{phase}",
                f"Cell states, {task}, {phase}",
                f"t-SNE of the cell states at length {study.unseen_length}, after PCA to "
                f"{DIMENSIONS} dimensions, all samples overlaid: dots are states, lines are "
                f"transitions, from dark to light with time. {caption}",
                partial(state_trajectories, findings, task, phase),
            )
    for task in findings.tasks:
        for mode, meaning in (
            MODES.items() if _analysed(findings, task, "write_mode_encoding") else ()
        ):
            yield Drawing(
                f"{mode}_modes_{task}",
                f"{mode.capitalize()} modes, {task}",
                f"Histograms at length {study.training_lengths[1]} ({meaning}). {caption}",
                partial(memory_modes, findings, task, mode),
            )


def wanted_embeddings(findings: Findings) -> list[tuple[str, str]]:
    """The pairs (run id, phase) that the figures of states show."""
    return [
        (run_id, phase)
        for task in findings.tasks
        for approach in _analysed(findings, task, "curvature")
        for run_id in _columns(findings, task, approach)
        if run_id
        for phase in phases_of(task)
    ]


def curvature_against_score(findings: Findings) -> Figure:
    """One dot per trial, per task."""
    frame, colours = findings.instances, colours_of(findings.approaches)
    tasks = [task for task in findings.tasks if (frame["task"] == task).any()]
    figure, panels = grid(len(tasks), columns=4, width=2.9, height=2.5)
    names = [name for name in findings.approaches if (frame["approach"] == name).any()]
    for panel, task in zip(panels, tasks, strict=True):
        for name in names:
            dots = frame[(frame["task"] == task) & (frame["approach"] == name)]
            panel.scatter(dots["curvature"], 100 * dots["average"], s=24, color=colours[name])
        panel.set_title(task, loc="left")
        panel.set(xlim=(0, 1.05 * frame["curvature"].max()), ylim=(-2, 103))
    figure.supxlabel("curvature", fontsize=9)
    figure.supylabel("average score (%)", fontsize=9)
    handles = [Line2D([], [], ls="", marker="o", color=colours[it], label=it) for it in names]
    columns = max(1, int(figure.get_figwidth() / 1.6))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns)
    return figure


def state_trajectories(findings: Findings, task: str, phase: str) -> Figure:
    """t-SNE paths of the best and the worst trials, a row per approach."""
    approaches = _analysed(findings, task, "curvature")
    return _trial_panels(findings, task, approaches, partial(_draw_states, findings, phase))


def state_picture(
    findings: Findings,
    task: str = "copy",
    approaches: Sequence[str] = ("stateful-baseline", "compr+reg"),
    trials: int = 3,
    phase: str = "encoding",
) -> Figure:
    """The paths of the first trials of some approaches side by side, a row per approach."""
    figure, panels = grid(trials * len(approaches), columns=trials, width=2.3, height=2.3)
    colours = colours_of(findings.approaches)
    rows = [panels[start : start + trials] for start in range(0, len(panels), trials)]
    for approach, row in zip(approaches, rows, strict=True):
        scores = findings.ranked(task, approach)
        curve = findings.curves[findings.trained_memory, task, approach]
        for panel, (seed, run_id) in zip(row, curve.index, strict=False):
            _draw_states(findings, phase, panel, run_id)
            panel.set_title(f"seed {seed}: {100 * scores[run_id]:.0f} %", fontsize=9, pad=3)
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(approach, color=colours[approach], fontweight="bold", fontsize=10)
    return figure


def memory_modes(findings: Findings, task: str, mode: str) -> Figure:
    """Histograms of the write or read mode in both phases, a row per approach."""
    approaches = _analysed(findings, task, f"{mode}_mode_encoding")
    draw = partial(_draw_modes, findings, mode)
    figure = _trial_panels(findings, task, approaches, draw)
    figure.supxlabel(MODES[mode], fontsize=9, y=0.06 / figure.get_figheight(), va="bottom")
    handles = [Patch(color=PHASE_COLOURS[phase], alpha=0.75, label=phase) for phase in PHASES]
    figure.legend(handles=handles, loc="upper right", ncols=2, borderaxespad=0.1)
    return figure


def _analysed(findings: Findings, task: str, array: str) -> list[str]:
    """The approaches with at least one run whose analysis has the array."""
    return [
        name
        for name in findings.approaches
        if any(findings.study.analysis(run, array) for run in findings.ranked(task, name).index)
    ]


def _columns(findings: Findings, task: str, approach: str) -> list[str]:
    """Run ids by column: the best trials, a gap, the worst of the others; empty where none is."""
    ranked = findings.ranked(task, approach).index.tolist()
    worst = ranked[BEST:][-WORST:]
    return [*ranked[:BEST], *[""] * (BEST - len(ranked[:BEST])), "", *worst]


def _trial_panels(
    findings: Findings, task: str, approaches: Sequence[str], draw: partial[None]
) -> Figure:
    """A row of panels per approach, a column per trial, drawn by `draw(panel, run_id)`."""
    rows = [_columns(findings, task, name) for name in approaches]
    used = [
        place
        for place in range(BEST + 1 + WORST)
        if any(row[place : place + 1] > [""] for row in rows)
    ]
    ratios = [1.0 if place != BEST else 0.25 for place in range(max(used) + 1)]
    size, colours = 1.55, colours_of(findings.approaches)
    # Margins in inches rather than a layout engine, which takes seconds for this many panels.
    width, height = max(size * sum(ratios) + 0.4, 4.0), size * len(rows) + 0.8
    edges = {"left": 0.3 / width, "right": 1 - 0.1 / width, "wspace": 0.1, "hspace": 0.2}
    edges |= {"bottom": 0.4 / height, "top": 1 - 0.45 / height}
    figure = Figure((width, height))
    panels = figure.subplots(
        len(rows), len(ratios), squeeze=False, width_ratios=ratios, gridspec_kw=edges
    )
    for name, row, across in zip(approaches, rows, panels, strict=True):
        scores = findings.ranked(task, name)
        for place, panel in enumerate(across):
            panel.set(xticks=[], yticks=[])
            run_id = row[place] if place < len(row) else ""
            if not run_id:
                panel.set_visible(False)
                continue
            draw(panel, run_id)
            panel.set_title(
                f"{100 * scores[run_id]:.0f} %", fontsize=7.5, fontweight="normal", pad=2
            )
        across[0].set_ylabel(name, color=colours[name], fontweight="bold", fontsize=8.5)
    return figure


def _draw_states(findings: Findings, phase: str, panel: Axes, run_id: str) -> None:
    path = embedding(findings.study, run_id, phase)  # time, batch, 2
    if path is None:
        return _label_missing(panel)
    steps = np.stack([path[:-1], path[1:]], axis=2).reshape(-1, 2, 2)
    when = np.repeat(np.linspace(0, 1, len(path) - 1), path.shape[1])
    lines = LineCollection(list(steps), colors=TIME_COLOURS(when), lw=0.35, alpha=0.55)
    lines.set_rasterized(True)
    panel.add_collection(lines)
    across, up = path.reshape(-1, 2).T
    panel.scatter(across, up, s=1.6, color=GREEN, lw=0, zorder=3, rasterized=True)
    panel.margins(0.04)
    for spine in panel.spines.values():
        spine.set_visible(True)
    return None


def _draw_modes(findings: Findings, mode: str, panel: Axes, run_id: str) -> None:
    histograms = findings.study.analysis(run_id, *(f"{mode}_mode_{phase}" for phase in PHASES))
    if not histograms:
        return _label_missing(panel)
    for phase in PHASES:
        counts, shade = histograms[f"{mode}_mode_{phase}"], PHASE_COLOURS[phase]
        share, edges = counts / max(counts.sum(), 1), np.linspace(0, 1, BINS + 1)
        panel.stairs(share, edges, fill=True, fc=(shade, 0.55), ec=shade, lw=0.9)
    panel.set_xlim(0, 1)
    return None


def _label_missing(panel: Axes) -> None:
    """Label a panel whose analysis is missing or corrupt."""
    panel.text(0.5, 0.5, "no analysis", transform=panel.transAxes, ha="center", va="center", size=7)
