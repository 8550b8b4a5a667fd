"""Colours of figures; tests/test_colours.py compares them with the pages' style sheets."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable

# Okabe and Ito's palette: distinct with any colour vision, on white and on black.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
)
GREY = "#8a949d"  # readable on a light and on a dark page
PHASE_COLOURS = {"encoding": BLUE, "decoding": ORANGE}

LIGHT = {"ink": "#1d2328", "faint": "#c9ced3", "ground": "#ffffff"}
DARK = {"ink": "#e3e7ea", "faint": "#4a525a", "ground": "#1b2025"}
"""Colours of a page; its style sheet calls the ground card."""

APPROACH_COLOURS = {
    "stateful-baseline": VERMILION,
    "stateless-baseline": ORANGE,
    "compr": SKY,
    "reg": GREEN,
    "compr+reg": BLUE,
    "peephole": PURPLE,
    "lstm-compr": "#7F8FA6",
    "lstm-reg": "#A6761D",
    "lstm-compr+reg": "#B5485D",
    "compr+reg+used": "#B14FD0",
    "stateful-baseline+used": "#999933",
    "round+reg": "#117733",
}
"""Built-in approaches: one colour each in every figure of the project."""
OTHER_COLOURS = ("#66A61E", "#1FA6A6", "#E7298A", "#8C6BB1", "#B8860B", "#8C8C8C")


def colours_of(approaches: Iterable[str]) -> dict[str, str]:
    """A colour per approach; user-defined ones get theirs in order of appearance.

    >>> colours_of(["mine", "compr"])
    {'mine': '#66A61E', 'compr': '#56B4E9'}
    """
    names = list(dict.fromkeys(approaches))
    others = [name for name in names if name not in APPROACH_COLOURS]
    chosen = {name: _other_colour(index) for index, name in enumerate(others)}
    return {name: APPROACH_COLOURS.get(name) or chosen[name] for name in names}


def _other_colour(index: int) -> str:
    if index < len(OTHER_COLOURS):
        return OTHER_COLOURS[index]
    # Steps of the golden ratio around the colour wheel never coincide.
    rgb = colorsys.hsv_to_rgb(0.618034 * index % 1, 0.6, 0.8)
    return "#" + "".join(f"{round(255 * part):02X}" for part in rgb)
