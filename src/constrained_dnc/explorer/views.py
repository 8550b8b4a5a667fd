"""A trace as JSON for the page: figures, numbers and text."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from constrained_dnc import published
from constrained_dnc.explorer import figures
from constrained_dnc.explorer.models import MAX_DRAWN_LENGTH, Model
from constrained_dnc.explorer.traces import (
    COMPANIONS,
    MAX_DRAWN_SLOTS,
    PER_SLOT,
    Trace,
    arrays,
    state_paths,
)


@dataclass(frozen=True)
class Panel:
    """A panel of the page; its figure is one of `DRAWN`."""

    name: str
    title: str
    note: str
    over_time: bool = False
    over_slots: bool = False
    column: int = 0


PANELS = (
    Panel(
        "states", "Cell state",
        "in the plane of its first two principal components; thin: "
        f"{COMPANIONS} random problems as long. Look whether all problems share one narrow path "
        "that returns to the same places (a small machine, which can go on like that on longer "
        "inputs), or whether paths spread and drift.",
    ),
    Panel(
        "machine", "Machine",
        "the controller as a finite-state machine, extracted at its training lengths; hover an "
        "arrow for its inputs.",
        column=1,
    ),
    Panel(
        "tape", "Tape",
        "symbols in the cells, what the network sees as colours; blank: no input, or no loss",
        over_time=True,
    ),
    Panel(
        "write_weights", "Write weights",
        "where the write head writes; click a slot to follow it",
        over_time=True, over_slots=True,
    ),
    Panel(
        "read_weights", "Read weights", "where each read head reads",
        over_time=True, over_slots=True,
    ),
    Panel("usage", "Usage", "how much of a slot is in use", over_time=True, over_slots=True),
    Panel(
        "gates", "Gates", "write, allocation (0 = by content, 1 = new slot) and free gates",
        over_time=True,
    ),
    Panel("read_modes", "Read modes", "backward, forward or by content", over_time=True),
    Panel("strengths", "Strengths", "how sharply a head looks up by content", over_time=True),
    Panel("slot", "One slot", "written, read and used through time", over_time=True, column=1),
    Panel("memory", "Memory", "the memory matrix after this step", over_slots=True, column=1),
    Panel("link", "Link", "which slot was written after which", over_slots=True, column=1),
    Panel(
        "scores", "Score against length",
        "as stored; shaded: training lengths; dotted: 95 %, which the maximum length reaches; "
        "green: the paper's rule",
        column=1,
    ),
)  # fmt: skip


def score_figure(trace: Trace) -> go.Figure | None:
    """Stored scores of the model; None where there are none."""
    model = trace.model
    paper = published.max_lengths(False).get((model.task.name, model.approach))
    lengths = model.training_lengths
    curves = model.curves
    return figures.score_figure(curves, trace.batch.length, lengths, paper) if curves else None


DRAWN: dict[str, Callable[[Trace], go.Figure | None]] = {
    "tape": lambda trace: figures.tape_figure(trace.model.task, trace.batch, trace.outputs),
    "write_weights": lambda trace: figures.write_weights_figure(trace.internals),
    "read_weights": lambda trace: figures.read_weights_figure(trace.internals),
    "usage": lambda trace: figures.usage_figure(trace.internals),
    "gates": lambda trace: figures.gates_figure(trace.internals),
    "read_modes": lambda trace: figures.read_modes_figure(trace.internals),
    "strengths": lambda trace: figures.strengths_figure(trace.internals),
    "slot": lambda trace: figures.slot_figure(trace.internals, 1),
    "memory": lambda trace: figures.memory_figure(trace.internals, 1),
    "link": lambda trace: figures.link_figure(trace.internals, 1),
    "scores": score_figure,
}
"""All but the cell states, which need other problems and come later."""


def describe_panels() -> list[dict[str, Any]]:
    """The panels in JSON, for the page."""
    return [asdict(panel) for panel in PANELS]


def describe(model: Model) -> dict[str, Any]:
    """A model's metadata, for the page."""
    training = model.training
    lengths = (4, training.max_length, training.unseen_length, 2 * training.unseen_length)
    return {
        "name": model.name,
        "task": model.task.name,
        "summary": model.task.summary,
        "approach": model.approach,
        "iteration": model.iteration,
        "rule": model.rule,
        "rules": list(model.rules),
        "inference": model.inference,
        "inferences": list(model.inferences),
        "state": model.state,
        "is_training": model.is_training,
        "memory_size": model.memory_size,
        "max_slots": MAX_DRAWN_SLOTS,
        "max_length": MAX_DRAWN_LENGTH,
        "training_lengths": model.training_lengths,
        "first_length": model.first_length(),
        "first_compared_length": model.first_length(is_compared=True),
        "examples": sorted({min(length, MAX_DRAWN_LENGTH) for length in lengths}),
    }


def view(trace: Trace) -> dict[str, Any]:
    """A trace for the page, without the cell states, which need other problems."""
    slots = figures.slots_in_play(trace.internals)
    named = arrays(trace)
    # The browser draws the two matrices and a followed slot from these, step by step.
    needed = {"memory": named["memory"][:, :slots]}
    needed |= {name: named[name][..., :slots] for name in PER_SLOT}
    needed |= {name: named[name] for name in ("write_gate", "allocation_gate", "read_modes")}
    return {
        "model": describe(trace.model),
        "problem": trace.text,
        "length": trace.batch.length,
        "memory_size": trace.memory_size,
        "all_slots": trace.slots,
        "steps": len(trace.outputs),
        "encoding_steps": trace.encoding_steps,
        "first_result_step": trace.first_result_step,
        "slots": slots,
        "heads": trace.internals.interface.free_gates.shape[-1],
        "word": trace.internals.memory.memory.shape[-1],
        "score": trace.score,
        "score_kind": trace.model.task.score_kind,
        "answer_note": trace.model.task.answer_note,
        "entries": [[entry.right, entry.answer, entry.is_right] for entry in trace.entries],
        "arrays": {name: packed(array) for name, array in needed.items()},
        "figures": {
            name: as_json(figure) for name, draw in DRAWN.items() if (figure := draw(trace))
        },
    }


def states(trace: Trace) -> dict[str, Any] | None:
    """The figure of the cell states and the path on it; None without states."""
    paths = state_paths(trace)
    if paths is None:
        return None
    figure = figures.states_figure(paths, trace.encoding_steps)
    return {"figure": as_json(figure), "path": packed(paths[:, 0])}


def data_file(trace: Trace, step: int) -> bytes:
    """The numbers as npz, with the link at one step."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays(trace), link=figures.link_at(trace.internals, step))
    return file.getvalue()


def packed(array: Any) -> dict[str, Any]:
    """An array as bytes in JSON."""
    values = np.ascontiguousarray(array, np.float32)
    return {"shape": values.shape, "bytes": base64.b64encode(values.tobytes()).decode()}


def as_json(figure: go.Figure) -> dict[str, Any]:
    """A figure without its template: the page has one for light and one for dark."""
    figure.layout.template = None
    values: dict[str, Any] = json.loads(figure.to_json())
    return values


def dumps(values: Mapping[str, Any] | list[Any] | None) -> str:
    """JSON that can be embedded in a page.

    >>> dumps(["<!--<script>"])
    '["\\\\u003c!--\\\\u003cscript>"]'
    """
    return json.dumps(values, allow_nan=False).replace("<", "\\u003c")
