"""Colours of figures; tests/test_colours.py compares them with the pages' style sheets."""

from __future__ import annotations

# Okabe and Ito's, told apart with any colour vision and on white as on black.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
)
PHASE_COLOURS = {"encoding": BLUE, "decoding": ORANGE}

LIGHT = {"ink": "#1d2328", "faint": "#c9ced3", "ground": "#ffffff"}
DARK = {"ink": "#e3e7ea", "faint": "#4a525a", "ground": "#1b2025"}
"""Of a page; in its style sheet the ground is called card."""
