"""How figures look and how they are kept: colours, sizes, light and dark, files.

Draw and save inside `style()`; `darken` makes a figure fit a dark page.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, is_color_like, to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
from PIL import Image

from constrained_dnc import published
from constrained_dnc.approaches import USED_SLOTS
from constrained_dnc.colours import (
    BLUE,
    DARK,
    GREEN,
    LIGHT,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
)
from constrained_dnc.files import make_folder, write_atomically
from constrained_dnc.published import THRESHOLD
from constrained_dnc.report.curves import Curves
from constrained_dnc.report.wording import label, rounded, span

COLOURS = {
    "stateful-baseline": VERMILION,
    "stateless-baseline": ORANGE,
    "compr": SKY,
    "reg": GREEN,
    "compr+reg": BLUE,
    "peephole": PURPLE,
    "compr+reg+used": PURPLE,
    "stateful-baseline+used": "#999933",
}
OTHER_COLOURS = ("#8C8C8C", "#A6761D", "#7570B3", "#66A61E")
MEMORY_COLOURS = {"trained": BLUE, "extended": VERMILION, "growing": GREEN}
# From dark to light with time; both ends stand out from either background.
TIME_COLOURS = LinearSegmentedColormap.from_list(
    "time", ["#3b0f70", "#8c2981", "#de4968", "#fe9f6d", "#f5d08f"]
)
DPI = 130
DOTS_TOLD = "Dots: the lengths that were measured, where not all were; the scale is logarithmic."
"""For the captions of figures whose lengths have gaps."""


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn: under which name, with which words, and how."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


def colour(approach: str) -> str:
    """The one colour of an approach; with a vanilla LSTM that of its constraint."""
    name = approach.removeprefix("lstm-") if approach in published.VANILLA else approach
    if name in COLOURS:
        return COLOURS[name]
    return OTHER_COLOURS[sum(approach.encode()) % len(OTHER_COLOURS)]


def dash(approach: str) -> str:
    """Dashed for a vanilla LSTM with a constraint, dotted for look-up over used slots."""
    if approach in USED_SLOTS:
        return ":"
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
        "text.parse_math": False,  # a name may have a dollar sign
        "xtick.color": LIGHT["ink"],
        "ytick.color": LIGHT["ink"],
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # A name may have characters that the font lacks: a box stands for them.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing", UserWarning)
        yield


def darken(figure: Figure) -> None:
    """Exchange ink, lines and ground for their dark counterparts; data keep their colours."""
    exchange = {LIGHT[name]: DARK[name] for name in LIGHT}
    for artist in figure.findobj():
        for part in ("color", "facecolor", "edgecolor"):
            shade: Any = getattr(artist, f"get_{part}", lambda: None)()
            if is_color_like(shade) and to_hex(shade) in exchange:
                artist.set(**{part: to_rgba(exchange[to_hex(shade)], to_rgba(shade)[3])})


def save(figure: Figure, directory: Path, name: str) -> bytes:
    """As PNG and SVG files; returns the PNG for the page."""
    make_folder(directory)
    for ending, metadata in (("svg", {"Date": None}), ("png", {})):
        file = io.BytesIO()
        figure.savefig(file, format=ending, dpi=DPI, metadata=metadata)
        write_atomically(directory / f"{name}.{ending}", file.getvalue())
    return _smaller(file.getvalue())


def png(figure: Figure) -> bytes:
    """A PNG for the page."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return _smaller(file.getvalue())


def grid(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Panels side by side, as many as are needed."""
    rows = -(-count // columns)
    figure = Figure((width * columns + 0.4, height * rows + 0.6), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


def draw_curves(
    panel: Axes, curves: Sequence[Curves], training_lengths: tuple[int, int] | None
) -> None:
    """Medians and bands of the trials, in the colours of their approaches."""
    for curve in curves:
        draw_curve(panel, curve, colour(curve.approach), dash(curve.approach))
    finish_panel(panel, training_lengths)


def draw_curve(panel: Axes, curve: Curves, shade: str, dash: str) -> None:
    """The median of the trials and their band; dots where not every length was measured."""
    low, median, high = 100 * curve.band
    panel.fill_between(curve.lengths, low, high, color=shade, alpha=0.18, lw=0)
    has_gaps = len(curve.lengths) == 1 or np.any(np.diff(curve.lengths) > 1)
    dot = "." if has_gaps else ""
    panel.plot(curve.lengths, median, color=shade, ls=dash, lw=1.6, marker=dot, markersize=4)


def finish_panel(panel: Axes, training_lengths: tuple[int, int] | None) -> None:
    """Shade the training lengths, mark what counts as processed, show all of the scale."""
    if training_lengths is not None:
        ink = mpl.rcParams["text.color"]
        panel.axvspan(*training_lengths, color=ink, alpha=0.07, lw=0, zorder=0)
    panel.axhline(100 * THRESHOLD, color=mpl.rcParams["grid.color"], lw=0.8, zorder=0)
    panel.set_ylim(-2, 103)
    panel.margins(x=0.01)


def lines_told(training_lengths: tuple[int, int] | None) -> str:
    """What is shaded and drawn across in every panel, for its caption."""
    line = f"Line: {rounded(100 * THRESHOLD, 0)} %, what counts as processed."
    if training_lengths is None:
        return line
    return f"Shaded: the training lengths ({span(training_lengths)}). {line}"


def mark_slots(panel: Axes, memory_size: int) -> None:
    """An upright dashed line at the number of slots."""
    ink = mpl.rcParams["text.color"]
    panel.axvline(memory_size, color=ink, lw=0.8, ls=(0, (4, 3)), alpha=0.6)


def log_lengths(panel: Axes) -> None:
    """Lengths on a logarithmic axis with round numbers."""
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator([2, 5, 10, 20, 50, 100, 200, 500]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(ScalarFormatter())


def label_outside(figure: Figure, x: str, y: str, unit: str = "(%)") -> None:
    """One label for all panels, on either axis."""
    figure.supxlabel(x, fontsize=9)
    figure.supylabel(f"{y} {unit}".strip(), fontsize=9)


def legend(figure: Figure, approaches: Sequence[str], dots: bool = False) -> None:
    """The approaches above the panels."""
    handles = [
        Line2D(
            [],
            [],
            color=colour(name),
            ls="" if dots else dash(name),
            marker="o" if dots else "",
            markerfacecolor=fill(name),
            lw=2,
            label=label(name),
        )
        for name in approaches
    ]
    columns = max(1, min(len(handles), int(figure.get_figwidth() / 1.5)))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns)


def fill(approach: str) -> str:
    """Hollow dots where curves are dashed."""
    return colour(approach) if dash(approach) == "-" else "none"


def _smaller(image: bytes) -> bytes:
    """The same PNG in 64 colours: enough, and a third of the size."""
    file = io.BytesIO()
    Image.open(io.BytesIO(image)).convert("RGB").quantize(64, Image.Quantize.FASTOCTREE).save(
        file, format="png"
    )
    return file.getvalue()
