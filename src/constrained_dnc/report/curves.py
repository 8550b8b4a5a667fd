"""Figures of score against length: a thin line per seed and their median, named at the line.

An approach has one colour in all figures, a memory one kind of dashes; digital inference is
dash-dotted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from constrained_dnc.colours import colours_of
from constrained_dnc.config import SUPPLEMENT_C, THRESHOLD
from constrained_dnc.report import published
from constrained_dnc.report.drawing import Drawing, grid, log_lengths
from constrained_dnc.report.findings import DIGITAL, Findings, Key, memory_name

DASHES = ("-", (0, (4, 2)), (0, (1, 1.5)))
"""By the position of a memory in the study, where the trained one comes first."""
DIGITAL_DASHES = (0, (4, 1.5, 1, 1.5))
LINES = (
    "Thin lines: one per seed; thick: their median where all were measured. Dotted: the floor, the "
    "best answer that knows the length and ignores the input. Grey: the training lengths ({} to "
    "{}). Line at 95 %: what counts as solved. Vertical: the number of slots. Cross: given up, "
    "longer inputs count as wrong."
)
DIGITAL_LINES = " Dash-dotted: digital inference."


def dashes(findings: Findings, memory: str) -> int:
    """The index of a memory's dashes in `DASHES`."""
    return min(findings.study.memories.index(memory), len(DASHES) - 1)


def caption(findings: Findings) -> str:
    """What the lines of a figure are."""
    lines = LINES.format(*findings.study.training_lengths)
    return lines + DIGITAL_LINES * bool(findings.digital.curves)


def drawings(findings: Findings) -> Iterator[Drawing]:
    """Score against length by memory and by task, and supplement C."""
    lines, rule = f"{caption(findings)} Selected by {findings.selection}.", f"_{findings.selection}"
    for memory in findings.memories:
        yield Drawing(
            f"score_vs_length_{memory}{rule}",
            f"Score against length, {memory_name(findings.study, memory)}",
            lines,
            partial(score_against_length, findings, memory),
        )
    trained = findings.trained_memory
    if findings.keys([trained], ["sort"], SUPPLEMENT_C):
        order = (*published.APPROACHES, *SUPPLEMENT_C)
        yield Drawing(
            f"peephole_vs_vanilla_lstm{rule}",
            "Peephole against vanilla LSTM (supplement C)",
            f"The sort task; lstm- marks the constraints on a vanilla LSTM. {lines}",
            partial(score_against_length, findings, trained, ["sort"], order),
        )
    for task in findings.tasks if len(findings.memories) > 1 else ():
        if findings.keys(findings.memories, [task]):
            yield Drawing(
                f"memory_{task}{rule}",
                f"Score against length by memory, {task}",
                lines,
                partial(score_by_memory, findings, task),
            )


def score_against_length(
    findings: Findings,
    memory: str,
    tasks: Sequence[str] | None = None,
    approaches: Sequence[str] | None = None,
    *,
    digital: bool = True,
) -> Figure:
    """A panel per task, a line per trial and, with `digital`, one per trial with those parts."""
    shown = tasks or findings.tasks_with(memory)
    columns, width = (3, 4.0) if len(shown) > 4 else (2, 4.0 if len(shown) > 1 else 6.4)
    figure, panels = grid(len(shown), columns=columns, width=width, height=2.7)
    for panel, task in zip(panels, shown, strict=True):
        keys = findings.keys([memory], [task], approaches)
        _draw(panel, findings, keys)
        if digital:
            _draw_trials(panel, findings.digital, keys)
        _label_lines(panel, findings, keys)
        panel.set_title(task, loc="left")
    return _finish(figure)


def score_by_memory(
    findings: Findings, task: str, approaches: Sequence[str] | None = None
) -> Figure:
    """A panel per approach, with different dashes for every memory."""
    keys = findings.keys(findings.memories, [task], approaches)
    names = [name for name in approaches or findings.approaches if name in {key[2] for key in keys}]
    columns = 2 if len(names) in (2, 4) else 3
    figure, panels = grid(len(names), columns=columns, width=3.6, height=2.6)
    for panel, name in zip(panels, names, strict=True):
        _draw(panel, findings, [key for key in keys if key[2] == name])
        panel.set_title(name, loc="left", color=colours_of(findings.approaches)[name])
    handles = []
    for memory in findings.memories:
        dash, label = DASHES[dashes(findings, memory)], memory_name(findings.study, memory)
        handles.append(Line2D([], [], color=mpl.rcParams["text.color"], ls=dash, label=label))
    figure.legend(handles=handles, loc="outside upper left", ncols=3 if len(names) > 1 else 1)
    return _finish(figure)


def _draw(panel: Axes, findings: Findings, keys: Sequence[Key]) -> None:
    """The lines of all trials, the floor, the training lengths, the slots and the 95 %."""
    ink, faint = mpl.rcParams["text.color"], mpl.rcParams["grid.color"]
    panel.axvspan(*findings.study.training_lengths, color=ink, alpha=0.07, lw=0, zorder=0)
    panel.axhline(100 * THRESHOLD, color=faint, lw=0.8, zorder=0)
    _draw_trials(panel, findings, keys)
    floor = findings.floor_line(keys[0][1], [key[0] for key in keys])
    panel.plot(floor.index, 100 * floor, color=ink, lw=1, ls=(0, (1, 2)), zorder=1)
    longest = max(int(findings.curves[key].columns[-1]) for key in keys)
    if longest > 2 * published.AVERAGE_UP_TO + 10:
        log_lengths(panel)
    for memory in dict.fromkeys([findings.trained_memory, *(key[0] for key in keys)]):
        if memory.isdecimal() and int(memory) < longest:
            panel.axvline(int(memory), color=ink, lw=0.7, alpha=0.4, zorder=0)
    panel.set_ylim(-2, 103)
    panel.margins(x=0.01)


def _draw_trials(panel: Axes, findings: Findings, keys: Sequence[Key]) -> None:
    """A line per trial, with a cross where it was given up, and their median."""
    for key in keys:
        if key not in findings.curves:
            continue
        curve, lines = findings.curves[key], findings.trial_lines(key)
        dash = DASHES[dashes(findings, key[0])]
        look: dict[str, Any] = {"color": colours_of(findings.approaches)[key[2]]}
        look["ls"] = DIGITAL_DASHES if findings.inference == DIGITAL else dash
        several: dict[str, Any] = {"lw": 0.8, "alpha": 0.75} if len(lines) > 1 else {"lw": 2}
        for line in lines.values():
            panel.plot(line.index, 100 * line, **several, **look)
            if len(line) < curve.shape[1]:
                panel.plot(line.index[-1:], 100 * line[-1:], "x", ms=4, color=look["color"])
        if len(lines) > 1:
            median = 100 * pd.DataFrame(lines).median(axis=1, skipna=False)
            panel.plot(median.index, median, lw=2, **look)


def _label_lines(panel: Axes, findings: Findings, keys: Sequence[Key]) -> None:
    """Label every approach beside its line, each at a different height."""
    colours, ground = colours_of(findings.approaches), mpl.rcParams["axes.facecolor"]
    best = {key: 100 * findings.curves[key].max() for key in keys}
    longest = findings.lengths["length"]
    order = sorted(keys, key=lambda key: (-longest[(*key, "entries")], -best[key].mean()))
    heights = np.maximum(88 - 12 * np.arange(len(order)), 8)
    for height, key in zip(heights, order, strict=True):
        above = best[key][best[key] >= height]
        at = above.index[-1] if len(above) else best[key].index[0]
        is_last = at > 0.85 * best[key].index[-1]  # no room to its right
        panel.annotate(
            key[2],
            (at, height),
            xytext=(-4 if is_last else 4, 0),
            textcoords="offset points",
            ha="right" if is_last else "left",
            color=colours[key[2]],
            fontsize=7.5,
            va="center",
            bbox={"boxstyle": "square,pad=0.1", "fc": ground, "ec": "none", "alpha": 0.75},
        )


def _finish(figure: Figure) -> Figure:
    figure.supxlabel("length", fontsize=9)
    figure.supylabel("correct entries (%)", fontsize=9)
    return figure
