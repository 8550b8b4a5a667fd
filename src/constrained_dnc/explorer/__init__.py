"""Figures of a model's memory at work on one problem, and a local page."""

from constrained_dnc.explorer.figures import (
    gates_figure,
    link_figure,
    memory_figure,
    read_modes_figure,
    read_weights_figure,
    score_figure,
    slot_figure,
    states_figure,
    strengths_figure,
    tape_figure,
    usage_figure,
    write_weights_figure,
)
from constrained_dnc.explorer.models import open_model, stored_curves
from constrained_dnc.explorer.traces import Trace, state_paths, trace

__all__ = [
    "Trace",
    "gates_figure",
    "link_figure",
    "memory_figure",
    "open_model",
    "read_modes_figure",
    "read_weights_figure",
    "score_figure",
    "slot_figure",
    "state_paths",
    "states_figure",
    "stored_curves",
    "strengths_figure",
    "tape_figure",
    "trace",
    "usage_figure",
    "write_weights_figure",
]
