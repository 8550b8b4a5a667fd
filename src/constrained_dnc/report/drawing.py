"""Style, layout and files of figures: light and dark, grids of panels, PNG and SVG.

Draw and save inside `style()`; `darken` makes a figure fit a dark page.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like, to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter
from PIL import Image

from constrained_dnc.colours import DARK, LIGHT
from constrained_dnc.files import make_folder, write_atomically

DPI = 130


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn: its file name, title, caption, and how."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]


@contextmanager
def style() -> Iterator[None]:
    """Colours and sizes for the figures drawn and saved inside."""
    settings: dict[Any, object] = {
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
        "svg.fonttype": "none",
        "svg.hashsalt": "constrained-dnc",
        "text.color": LIGHT["ink"],
        "text.parse_math": False,  # a name may have a dollar sign
        "xtick.color": LIGHT["ink"],
        "ytick.color": LIGHT["ink"],
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # A name may have characters that the font lacks: they become boxes.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing", UserWarning)
        yield


def darken(figure: Figure) -> None:
    """Exchange ink, lines and ground for their dark counterparts; data keep their colours."""
    exchange = {LIGHT[name]: DARK[name] for name in LIGHT}
    artists = figure.findobj()
    boxes = [text.get_bbox_patch() for text in artists if isinstance(text, Text)]
    for artist in [*artists, *filter(None, boxes)]:
        for part in ("color", "facecolor", "edgecolor"):
            shade: Any = getattr(artist, f"get_{part}", lambda: None)()
            if is_color_like(shade) and to_hex(shade) in exchange:
                artist.set(**{part: to_rgba(exchange[to_hex(shade)], to_rgba(shade)[3])})


def save(figure: Figure, directory: Path, name: str) -> bytes:
    """Write PNG and SVG files; return the PNG for the page."""
    make_folder(directory)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # three renderings share one layout
    write_atomically(directory / f"{name}.svg", _rendered(figure, "svg", {"Date": None}))
    image = _rendered(figure, "png")
    write_atomically(directory / f"{name}.png", image)
    return _quantized(image)


def png(figure: Figure) -> bytes:
    """A PNG for a page."""
    return _quantized(_rendered(figure, "png"))


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


def _rendered(figure: Figure, ending: str, metadata: dict[str, Any] | None = None) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=ending, dpi=DPI, metadata=metadata)
    return file.getvalue()


def _quantized(image: bytes) -> bytes:
    """A PNG in 64 colours: enough for a figure, and a third of the size."""
    file = io.BytesIO()
    picture = Image.open(io.BytesIO(image)).convert("RGB")
    picture.quantize(64, Image.Quantize.FASTOCTREE).save(file, format="png")
    return file.getvalue()
