"""See what the memory does: figures of one problem's way through a model, and a local page."""

from constrained_dnc.explorer.attempts import Attempt, attempt, state_paths
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
from constrained_dnc.explorer.models import Model, open_model

__all__ = [
    "Attempt",
    "Model",
    "attempt",
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
    "strengths_figure",
    "tape_figure",
    "usage_figure",
    "write_weights_figure",
]
