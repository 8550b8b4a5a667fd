"""Style, layout and files of figures. Draw and save inside `style()`.

In an SVG ink, faint lines and ground follow the page around it, or the reader's light or dark mode
if it stands alone; PDF and PNG are light.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
from PIL import Image

from constrained_dnc.colours import DARK, LIGHT
from constrained_dnc.files import make_folder, write_atomically

DPI = 130
SETTINGS: dict[Any, object] = {
    "axes.edgecolor": LIGHT["faint"],
    "axes.facecolor": LIGHT["ground"],
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
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "text.color": LIGHT["ink"],
    "text.parse_math": False,  # a name may have a dollar sign
    "xtick.color": LIGHT["ink"],
    "ytick.color": LIGHT["ink"],
}
# What style sheets call the colours of figures; pages define --faint and --card.
CSS_COLOURS = {"ink": "currentColor", "faint": "var(--faint)", "ground": "var(--card)"}
STANDALONE = "<style>svg {{ {} }} @media (prefers-color-scheme: dark) {{ svg {{ {} }} }}</style>"


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn: its file name, title, caption, and how."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]

    def write(self, directory: Path) -> str:
        """Draw the figure, write its SVG, PDF and PNG, and return an SVG element for a page."""
        with style():
            figure = self.draw()
            element = svg(figure, self.name)
            make_folder(directory)
            write_atomically(directory / f"{self.name}.svg", standalone(element).encode())
            for ending, metadata in (("pdf", {"CreationDate": None}), ("png", None)):
                path = directory / f"{self.name}.{ending}"
                write_atomically(path, _rendered(figure, ending, metadata))
        return element


@contextmanager
def style() -> Iterator[None]:
    """Colours and sizes for the figures drawn and saved inside."""
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        # A name may have characters that the font lacks: they become boxes.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing", UserWarning)
        yield


def svg(figure: Figure, name: str) -> str:
    """An SVG element whose ink is the text colour of the page it is put into.

    Args:
        figure: any Matplotlib figure drawn inside `style()`.
        name: tells its ids from those of other figures on the page.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # all renderings share one layout
    with mpl.rc_context({"svg.hashsalt": name}):
        text = _rendered(figure, "svg", {"Date": None}).decode()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"\s*<(metadata|style).*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # groups are numbered alike in every figure
    text = re.sub(r"(?<=data:image/png;base64,)[^\"]+", _quantized, text)
    for part, css in CSS_COLOURS.items():
        text = text.replace(LIGHT[part], css)
    return text.replace("<svg ", '<svg role="img" style="stroke-linejoin: round" ', 1)


def standalone(element: str) -> str:
    """An SVG file that brings its colours for light and dark."""
    light, dark = (
        f"color: {shades['ink']}; --faint: {shades['faint']}; --card: {shades['ground']}"
        for shades in (LIGHT, DARK)
    )
    end = element.index(">") + 1
    return f"{element[:end]}{STANDALONE.format(light, dark)}{element[end:]}\n"


def grid(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels in a grid."""
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    figure = Figure((width * columns + 0.4, height * rows + 0.6), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


def log_lengths(panel: Axes) -> None:
    """Lengths on a logarithmic axis with round numbers."""
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator([2, 5, 10, 20, 50, 100, 200, 500, 1000]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(ScalarFormatter())


def _quantized(image: re.Match[str]) -> str:
    """A rasterised part of a figure in 128 colours, a fifth of the size."""
    picture, file = Image.open(io.BytesIO(base64.b64decode(image[0]))), io.BytesIO()
    picture.quantize(128, Image.Quantize.FASTOCTREE).save(file, format="png")
    return base64.b64encode(file.getvalue()).decode()


def _rendered(figure: Figure, ending: str, metadata: dict[str, Any] | None = None) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=ending, dpi=DPI, metadata=metadata)
    return file.getvalue()
