"""Figures of scores and lengths: one thin line per trial, labelled at the line.

An approach has one colour in all figures, a memory one kind of dashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from constrained_dnc import published
from constrained_dnc.colours import colours_of
from constrained_dnc.report.drawing import Drawing, grid, log_lengths
from constrained_dnc.report.findings import Findings, Key, memory_name

DASHES = ("-", (0, (4, 2)), (0, (1, 1.5)))
"""By the place of a memory in the study: training's first."""
PLOTLY_DASHES = ("solid", "dash", "dot")
MANY_TRIALS = 5
"""With at least this many trials, a thicker line is their median."""
LINES = (
    "Thin lines: one per trial. Dotted: the floor, the best answer that knows the length and "
    "ignores the input. Grey: the training lengths ({} to {}). Line at 95 %: what counts as solved."
)


def dashes(findings: Findings, memory: str) -> int:
    """The place of a memory in `DASHES`."""
    return min(findings.study.memories.index(memory), len(DASHES) - 1)


def drawings(findings: Findings) -> Iterator[Drawing]:
    """Score against length by memory and by task, and supplement C."""
    lines = f"{LINES.format(*findings.study.training_lengths)} Selected by {findings.selection}."
    rule = f"_{findings.selection}"
    slots = "Upright: the number of slots."
    for memory in findings.memories:
        yield Drawing(
            f"score_vs_length_{memory}{rule}",
            f"Score against length, {memory_name(findings.study, memory)}",
            f"{lines} {slots}",
            partial(score_against_length, findings, memory),
        )
    if findings.keys([findings.trained_memory], ["sort"], published.SUPPLEMENT_C):
        yield Drawing(
            f"peephole_vs_vanilla_lstm{rule}",
            "Peephole against vanilla LSTM (supplement C)",
            f"The sort task; lstm- marks the constraints on a vanilla LSTM. {lines}",
            partial(peephole_against_vanilla, findings),
        )
    for task in findings.tasks if len(findings.memories) > 1 else ():
        if findings.keys(findings.memories, [task]):
            yield Drawing(
                f"memory_{task}{rule}",
                f"Score against length by memory, {task}",
                f"{lines} A cross: given up, all wrong beyond. {slots}",
                partial(score_by_memory, findings, task),
            )


def score_against_length(
    findings: Findings, memory: str, tasks: Sequence[str] | None = None
) -> Figure:
    """A panel per task, a line per trial."""
    shown = tasks or findings.tasks_with(memory)
    figure, panels = grid(len(shown), columns=3 if len(shown) > 4 else 2, width=4.0, height=2.7)
    for panel, task in zip(panels, shown, strict=True):
        _draw_labelled(panel, findings, findings.keys([memory], [task]))
    return _finish(figure)


def peephole_against_vanilla(findings: Findings) -> Figure:
    """Supplement C: the constraints on a peephole and on a vanilla LSTM, sort task."""
    order = (*published.APPROACHES, *published.SUPPLEMENT_C)
    keys = findings.keys([findings.trained_memory], ["sort"], order)
    figure, (panel,) = grid(1, columns=1, width=6.4, height=3.6)
    _draw_labelled(panel, findings, keys)
    return _finish(figure)


def score_by_memory(
    findings: Findings, task: str, approaches: Sequence[str] | None = None
) -> Figure:
    """A panel per approach, with different dashes for every memory."""
    keys = findings.keys(findings.memories, [task], approaches)
    names = [name for name in approaches or findings.approaches if name in {key[2] for key in keys}]
    figure, panels = grid(
        len(names), columns=2 if len(names) in (2, 4) else 3, width=3.6, height=2.6
    )
    for panel, name in zip(panels, names, strict=True):
        _draw(panel, findings, [key for key in keys if key[2] == name])
        panel.set_title(name, loc="left", color=colours_of(findings.approaches)[name])
    handles = []
    for memory in findings.memories:
        dash, label = DASHES[dashes(findings, memory)], memory_name(findings.study, memory)
        handles.append(Line2D([], [], color=mpl.rcParams["text.color"], ls=dash, label=label))
    figure.legend(handles=handles, loc="outside upper left", ncols=3 if len(names) > 1 else 1)
    return _finish(figure)


def _draw_labelled(panel: Axes, findings: Findings, keys: Sequence[Key]) -> None:
    """The lines of one task and memory, with the names of the approaches."""
    _draw(panel, findings, keys)
    _label_lines(panel, findings, keys)
    panel.set_title(keys[0][1], loc="left")


def _draw(panel: Axes, findings: Findings, keys: Sequence[Key]) -> None:
    """The lines of all trials, the floor, the training lengths, the slots and the 95 %."""
    ink, faint = mpl.rcParams["text.color"], mpl.rcParams["grid.color"]
    colours = colours_of(findings.approaches)
    panel.axvspan(*findings.study.training_lengths, color=ink, alpha=0.07, lw=0, zorder=0)
    panel.axhline(100 * published.THRESHOLD, color=faint, lw=0.8, zorder=0)
    for key in keys:
        look: dict[str, Any] = {"color": colours[key[2]], "ls": DASHES[dashes(findings, key[0])]}
        curve, lines = findings.curves[key], findings.trial_lines(key)
        for line in lines.values():
            panel.plot(line.index, 100 * line, lw=0.9, alpha=0.85, **look)
            if len(line) < curve.shape[1]:
                panel.plot(line.index[-1:], 100 * line[-1:], "x", ms=4, color=colours[key[2]])
        if len(lines) >= MANY_TRIALS:
            panel.plot(curve.columns, 100 * curve.median(skipna=False), lw=2, **look)
    floor = findings.floor_line(keys[0][1], [key[0] for key in keys])
    panel.plot(floor.index, 100 * floor, color=ink, lw=1, ls=(0, (1, 2)), zorder=1)
    lengths = [int(length) for key in keys for length in findings.curves[key].columns]
    if max(lengths) > 2 * published.AVERAGE_UP_TO + 10:
        log_lengths(panel)
    for memory in dict.fromkeys([findings.trained_memory, *(key[0] for key in keys)]):
        if memory.isdecimal() and int(memory) < max(lengths):
            panel.axvline(int(memory), color=ink, lw=0.7, alpha=0.4, zorder=0)
    panel.set_ylim(-2, 103)
    panel.margins(x=0.01)


def _label_lines(panel: Axes, findings: Findings, keys: Sequence[Key]) -> None:
    """Label every approach beside its line, each at a different height."""
    colours = colours_of(findings.approaches)
    ground = mpl.rcParams["axes.facecolor"]
    crossings = []
    for key in keys:
        best = 100 * findings.curves[key].max()
        order = findings.lengths.at[key, "entries"], best.mean()
        crossings.append((order, key[2], best))
    crossings.sort(key=lambda crossing: crossing[0], reverse=True)
    heights = np.linspace(88, 88 - 12 * (len(crossings) - 1), len(crossings))
    for height, (_, name, best) in zip(np.maximum(heights, 8), crossings, strict=True):
        above = best[best >= height]
        at = above.index[-1] if len(above) else best.index[0]
        panel.annotate(
            name,
            (at, height),
            xytext=(4, 0),
            textcoords="offset points",
            color=colours[name],
            fontsize=7.5,
            va="center",
            bbox={"boxstyle": "square,pad=0.1", "fc": ground, "ec": "none", "alpha": 0.75},
        )


def _finish(figure: Figure) -> Figure:
    figure.supxlabel("length", fontsize=9)
    figure.supylabel("right entries (%)", fontsize=9)
    return figure
