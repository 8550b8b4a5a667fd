"""The figures of the paper, drawn from a study: one function per figure.

Every function returns a Matplotlib figure. Draw and save it inside `style()`; `darken` makes it fit
a dark page.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, is_color_like, to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
from PIL import Image

from constrained_dnc.analysis.embeddings import PHASES, embedding
from constrained_dnc.analysis.memory_modes import BINS
from constrained_dnc.analysis.statistics import THRESHOLD
from constrained_dnc.report import published
from constrained_dnc.report.findings import Findings, best_and_worst
from constrained_dnc.study import Curves

# Okabe and Ito's colours, told apart with any colour vision and on white as on black.
COLOURS = {
    "stateful-baseline": "#D55E00",
    "stateless-baseline": "#E69F00",
    "compr": "#56B4E9",
    "reg": "#009E73",
    "compr+reg": "#0072B2",
    "peephole": "#CC79A7",
}
OTHER_COLOURS = ("#8C8C8C", "#A6761D", "#7570B3", "#66A61E")
PHASE_COLOURS = {"encoding": "#0072B2", "decoding": "#E69F00"}
LIGHT = {"ink": "#1d2328", "faint": "#c9ced3", "ground": "#ffffff"}
DARK = {"ink": "#e3e7ea", "faint": "#4a525a", "ground": "#1b2025"}
# From dark to light with time; both ends stand out from either background.
TIME_COLOURS = LinearSegmentedColormap.from_list(
    "time", ["#3b0f70", "#8c2981", "#de4968", "#fe9f6d", "#f5d08f"]
)
DPI = 130
LEAST_WIDTH = 4.0
"""In inches: title and legend stand side by side above however few panels."""
MODE_NAMES = {
    "write": ("write mode", "0 = by content, 1 = new slot"),
    "read": ("read mode", "0 = sequential, 1 = by content"),
}


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn: under which name, with which words, and how."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def colour(approach: str) -> str:
    """The one colour of an approach; that of the constraint for a vanilla LSTM with it."""
    if approach in COLOURS:
        return COLOURS[approach]
    if approach in published.VANILLA:
        return COLOURS[approach.removeprefix("lstm-")]
    return OTHER_COLOURS[sum(approach.encode()) % len(OTHER_COLOURS)]


def dash(approach: str) -> str:
    """Dashed for a vanilla LSTM with a constraint, whose colour is that of the constraint."""
    return "--" if approach in published.VANILLA else "-"


@contextmanager
def style() -> Iterator[None]:
    """Colours and sizes for the figures drawn and saved inside."""
    settings: dict[Any, object] = {
        "axes.edgecolor": LIGHT["faint"],
        "axes.facecolor": LIGHT["ground"],
        "axes.grid": False,
        "axes.labelcolor": LIGHT["ink"],
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": LIGHT["ink"],
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "figure.facecolor": LIGHT["ground"],
        "font.size": 9,
        "grid.color": LIGHT["faint"],
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "constrained-dnc",
        "text.color": LIGHT["ink"],
        "xtick.color": LIGHT["ink"],
        "ytick.color": LIGHT["ink"],
    }
    with mpl.rc_context(settings):
        yield


def darken(figure: Figure) -> None:
    """Exchange ink, lines and ground for their dark counterparts; data keep their colours."""
    exchange = {LIGHT[name]: DARK[name] for name in LIGHT}
    for artist in figure.findobj():
        for part in ("color", "facecolor", "edgecolor"):
            shade: Any = getattr(artist, f"get_{part}", lambda: None)()
            if is_color_like(shade) and to_hex(shade) in exchange:
                artist.set(**{part: to_rgba(exchange[to_hex(shade)], to_rgba(shade)[3])})


def all_drawings(findings: Findings) -> list[Drawing]:
    """Every figure the study has something to show in."""
    drawings = []
    if findings.plain.curves:
        drawings.append(
            Drawing(
                "score_vs_length",
                "Score against length",
                "Median over trials; the band holds the middle half of them. Dashed: the number of "
                "slots. Shaded: the training lengths.",
                lambda: score_against_length(findings, extended=False),
            )
        )
    if findings.extended.curves:
        drawings.append(
            Drawing(
                "score_vs_length_extended_memory",
                "Score against length with extended memory",
                "As above, the same networks with more slots. Dashed: the original and the "
                "extended number of slots.",
                lambda: score_against_length(findings, extended=True),
            )
        )
    if findings.instances:
        drawings.append(
            Drawing(
                "curvature_vs_score",
                "Curvature against score",
                "One dot per trained instance. Mind the different scales.",
                lambda: curvature_against_score(findings),
            )
        )
    if any((("sort", name) in findings.plain.curves) for name in published.SUPPLEMENT_C):
        drawings.append(
            Drawing(
                "peephole_vs_vanilla_lstm",
                "Peephole against vanilla LSTM (supplement C)",
                "The sort task. Solid: peephole LSTM and the stateful baseline. Dashed: the same "
                "constraint on a vanilla LSTM.",
                lambda: peephole_against_vanilla(findings),
            )
        )
    return drawings + _trajectory_drawings(findings) + _mode_drawings(findings)


def _trajectory_drawings(findings: Findings) -> list[Drawing]:
    return [
        Drawing(
            f"states_{task}_{phase}",
            f"Cell states, {task}, {phase}",
            f"t-SNE of the cell states at length {findings.study.unseen_length} (reduced by PCA "
            "to 20 dimensions): the three best and the three worst trials per approach, all "
            "samples overlaid; dots are states, lines are transitions, from dark to light with "
            "time.",
            partial(state_trajectories, findings, task, phase),
        )
        for task in findings.tasks
        if task in findings.instances
        for phase in phases_of(task)
    ]


def _mode_drawings(findings: Findings) -> list[Drawing]:
    return [
        Drawing(
            f"{mode}_modes_{task}",
            f"{MODE_NAMES[mode][0].capitalize()}s, {task}",
            f"Histograms at length {findings.study.training_lengths[1]} ({MODE_NAMES[mode][1]}): "
            "the three best and the three worst trials per approach.",
            partial(memory_modes, findings, task, mode),
        )
        for task in findings.tasks
        if _rows_with(findings, task, "write_mode_encoding")
        for mode in MODE_NAMES
    ]


def phases_of(task: str) -> tuple[str, ...]:
    """The phases whose states are drawn."""
    return PHASES[:1] if task in published.ENCODING_ONLY else PHASES


def wanted_embeddings(findings: Findings) -> list[tuple[str, str]]:
    """The (run id, phase) that the t-SNE figures show."""
    return [
        (run_id, phase)
        for task in findings.instances
        for approach in _rows_with(findings, task, "curvature")
        for runs in best_and_worst(findings.ranked(task, approach))
        for run_id in runs
        for phase in phases_of(task)
    ]


def score_against_length(findings: Findings, extended: bool) -> Figure:
    """Median score and middle half over trials, per task."""
    curves = findings.at(extended).curves
    tasks = [task for task in findings.tasks if any(of == task for of, _ in curves)]
    figure, panels = _grid(len(tasks), columns=min(4, len(tasks)), width=3.3, height=2.5)
    for panel, task in zip(panels, tasks, strict=True):
        shown = [curves[task, name] for name in findings.approaches if (task, name) in curves]
        _draw_curves(panel, shown, findings.study.training_lengths)
        sizes = [findings.study.memory_size]
        if extended and findings.study.extended_memory_size:
            sizes.append(findings.study.extended_memory_size)
            _log_lengths(panel)
        for size in sizes:
            panel.axvline(size, color=mpl.rcParams["text.color"], lw=0.8, ls=(0, (4, 3)), alpha=0.6)
        panel.set_title(task, loc="left")
    _label_outside(figure, "length", "score")
    _legend(figure, [name for name in findings.approaches if any(of == name for _, of in curves)])
    return figure


def peephole_against_vanilla(findings: Findings) -> Figure:
    """Supplement C: the constraints on a peephole and on a vanilla LSTM, sort task."""
    curves = findings.plain.curves
    order = ("stateful-baseline", "peephole", "compr", "reg", "compr+reg", *published.VANILLA)
    names = [name for name in order if ("sort", name) in curves]
    figure, panels = _grid(1, columns=1, width=6.2, height=3.4)
    shown = [curves["sort", name] for name in names]
    _draw_curves(panels[0], shown, findings.study.training_lengths)
    panels[0].axvline(
        findings.study.memory_size, color=mpl.rcParams["text.color"], lw=0.8, ls=(0, (4, 3))
    )
    panels[0].set_title("sort", loc="left")
    _label_outside(figure, "length", "score")
    _legend(figure, names)
    return figure


def curvature_against_score(findings: Findings) -> Figure:
    """One dot per instance, per task."""
    tasks = [task for task in findings.tasks if task in findings.instances]
    figure, panels = _grid(len(tasks), columns=min(4, len(tasks)), width=2.9, height=2.5)
    seen: dict[str, None] = {}
    for panel, task in zip(panels, tasks, strict=True):
        found = findings.instances[task]
        for name in dict.fromkeys(found.approaches):
            chosen = np.array(found.approaches) == name
            panel.scatter(
                found.curvature[chosen],
                100 * found.score[chosen],
                s=24,
                color=_fill(name),
                edgecolor=colour(name),
                linewidth=1,
            )
            seen[name] = None
        panel.set_title(task, loc="left")
        panel.margins(0.12)
    _label_outside(figure, "curvature", "average score (%)")
    _legend(figure, [name for name in findings.approaches if name in seen], dots=True)
    return figure


def state_trajectories(findings: Findings, task: str, phase: str) -> Figure:
    """t-SNE paths of the three best (left) and three worst (right) trials per approach."""
    approaches = _rows_with(findings, task, "curvature")
    figure, grid = _trial_grid(findings, task, approaches, size=1.55)
    for row, name in enumerate(approaches):
        scores = dict(findings.ranked(task, name))
        for panel, run_id in _trial_panels(findings, task, name, grid[row]):
            path = embedding(findings.study, run_id, phase)
            if path is not None:
                _draw_paths(panel, path)
            panel.set_title(
                f"{100 * scores[run_id]:.0f} %", fontsize=7.5, fontweight="normal", pad=2
            )
    return figure


def memory_modes(findings: Findings, task: str, mode: str) -> Figure:
    """Histograms of the write or read mode in both phases, best and worst trials."""
    approaches = _rows_with(findings, task, f"{mode}_mode_encoding")
    figure, grid = _trial_grid(findings, task, approaches, size=1.45)
    edges = np.linspace(0, 1, BINS + 1)
    for row, name in enumerate(approaches):
        scores = dict(findings.ranked(task, name))
        for panel, run_id in _trial_panels(findings, task, name, grid[row]):
            for phase in PHASES:
                key = f"{mode}_mode_{phase}"
                for counts in findings.study.analysis(run_id, key).values():
                    share = counts / max(counts.sum(), 1)
                    shade = PHASE_COLOURS[phase]
                    panel.stairs(share, edges, fill=True, fc=(shade, 0.55), ec=shade, lw=0.9)
            panel.set_xlim(0, 1)
            panel.set_title(
                f"{100 * scores[run_id]:.0f} %", fontsize=7.5, fontweight="normal", pad=2
            )
            if row == len(approaches) - 1:
                panel.set_xticks([0, 1], ["0", "1"], fontsize=7)
    figure.supxlabel(MODE_NAMES[mode][1], fontsize=9, y=0.06 / figure.get_figheight(), va="bottom")
    handles = [Patch(color=PHASE_COLOURS[phase], alpha=0.75, label=phase) for phase in PHASES]
    figure.legend(handles=handles, loc="upper right", ncols=2, borderaxespad=0.1)
    return figure


def save(figure: Figure, directory: Path, name: str) -> bytes:
    """As PNG and SVG files; returns the PNG for the page."""
    directory.mkdir(parents=True, exist_ok=True)
    figure.savefig(directory / f"{name}.svg", dpi=DPI, metadata={"Date": None})
    figure.savefig(directory / f"{name}.png", dpi=DPI)
    return _smaller((directory / f"{name}.png").read_bytes())


def png(figure: Figure) -> bytes:
    """A PNG for the page."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return _smaller(file.getvalue())


def _smaller(image: bytes) -> bytes:
    """The same PNG in 64 colours: enough, and a third of the size."""
    file = io.BytesIO()
    Image.open(io.BytesIO(image)).convert("RGB").quantize(64, Image.Quantize.FASTOCTREE).save(
        file, format="png"
    )
    return file.getvalue()


def _grid(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    rows = -(-count // columns)
    figure = Figure((width * columns + 0.4, height * rows + 0.6), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


def _draw_curves(panel: Axes, curves: Sequence[Curves], training_lengths: tuple[int, int]) -> None:
    for curve in curves:
        low, median, high = 100 * np.quantile(curve.scores, [0.25, 0.5, 0.75], axis=0)
        shade, style = colour(curve.approach), dash(curve.approach)
        panel.fill_between(curve.lengths, low, high, color=shade, alpha=0.18, lw=0)
        panel.plot(curve.lengths, median, color=shade, ls=style, lw=1.6)
    panel.axvspan(*training_lengths, color=mpl.rcParams["text.color"], alpha=0.07, lw=0, zorder=0)
    panel.axhline(100 * THRESHOLD, color=mpl.rcParams["grid.color"], lw=0.8, zorder=0)
    panel.set_ylim(-2, 103)
    panel.margins(x=0.01)


def _log_lengths(panel: Axes) -> None:
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator([2, 5, 10, 20, 50, 100, 200, 500]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(ScalarFormatter())


def _label_outside(figure: Figure, x: str, y: str) -> None:
    figure.supxlabel(x, fontsize=9)
    figure.supylabel(y if "%" in y else f"{y} (%)", fontsize=9)


def _legend(figure: Figure, approaches: Sequence[str], dots: bool = False) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=colour(name),
            ls="" if dots else dash(name),
            marker="o" if dots else "",
            markerfacecolor=_fill(name),
            lw=2,
            label=name,
        )
        for name in approaches
    ]
    columns = max(1, min(len(handles), int(figure.get_figwidth() / 1.5)))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns)


def _fill(approach: str) -> str:
    """Hollow dots where curves are dashed."""
    return colour(approach) if dash(approach) == "-" else "none"


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
    """Empty panels: a row per approach; best trials, a gap, worst trials."""
    sides = [best_and_worst(findings.ranked(task, name)) for name in approaches]
    best, worst = (max(len(side[index]) for side in sides) for index in (0, 1))
    ratios = [1.0] * best + ([0.25] if worst else []) + [1.0] * worst
    # Margins in inches rather than a layout engine, which takes seconds for so many panels.
    panels = size * sum(ratios)
    width, height = max(panels + 0.4, LEAST_WIDTH), size * len(approaches) + 0.9
    edges = {"left": 0.3 / width, "right": (0.3 + panels) / width, "wspace": 0.1, "hspace": 0.18}
    edges |= {"bottom": 0.45 / height, "top": 1 - 0.5 / height}
    figure = Figure((width, height))
    grid = figure.subplots(
        len(approaches), len(ratios), squeeze=False, width_ratios=ratios, gridspec_kw=edges
    )
    for panel in grid.flat:
        panel.set(xticks=[], yticks=[])
        panel.set_visible(False)
    for row, name in enumerate(approaches):
        grid[row, 0].set_visible(True)
        grid[row, 0].set_ylabel(name, color=colour(name), fontweight="bold", fontsize=8.5)
    if worst:
        grid = np.delete(grid, best, axis=1)
    title = "best trials on the left, worst on the right" if worst else "trials, the best first"
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
