"""Plotly templates of the explorer's figures, one for a light page and one for a dark one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from constrained_dnc import colours
from constrained_dnc.colours import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

HEADS = (VERMILION, GREEN, ORANGE, PURPLE, SKY)
"""Colours of the read heads; the write head is blue."""
MODES = {"backward": ORANGE, "forward": GREEN, "content": BLUE}

LEFT, RIGHT, TOP, BOTTOM = 84, 14, 8, 34
"""Margins in pixels, shared by all figures over time, so that one cursor crosses them all."""


def template(page: Mapping[str, str], cell: str, weak: tuple[str, str]) -> go.layout.Template:
    """Colours and defaults; `weak` are the tones of small values, negative and positive."""
    ink, faint, card = (page[name] for name in ("ink", "faint", "ground"))
    blue, orange = weak
    axis: dict[str, Any] = {
        "color": ink,
        "gridcolor": faint,
        "linecolor": faint,
        "zeroline": False,
        "showgrid": False,
        "ticks": "",
        "fixedrange": True,
        "automargin": False,
        "title": {"standoff": 4},
    }
    strong_blue, strong_orange = (
        ("#003a5c", "#7a2f00") if page is colours.LIGHT else (SKY, "#ffb27a")
    )
    # Zero has the colour of the page, so untouched slots are invisible.
    sequential = [[0, card], [0.12, blue], [0.55, BLUE], [1, strong_blue]]
    upwards = [[0.5, card], [0.57, orange], [0.8, VERMILION], [1, strong_orange]]
    downwards = [[0, strong_blue], [0.2, BLUE], [0.43, blue]]
    return go.layout.Template(
        layout={
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": ink},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": LEFT, "r": RIGHT, "t": TOP, "b": BOTTOM},
            "colorscale": {"sequential": sequential, "diverging": downwards + upwards},
            # On a tape zero is a value like any other; only blanks are invisible.
            "coloraxis": {
                "colorscale": [*downwards, [0.5, cell], *upwards[1:]],
                "showscale": False,
            },
            "hoverlabel": {"bgcolor": card, "bordercolor": faint, "font": {"color": ink}},
            "dragmode": False,
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
            "shapedefaults": {"line": {"color": ink}},
            "xaxis": axis,
            "yaxis": axis,
        }
    )


LIGHT = template(colours.LIGHT, "#e8ebee", ("#b5d3e7", "#f7d3bd"))
DARK = template(colours.DARK, "#343c44", ("#134a6b", "#6b3a1c"))
