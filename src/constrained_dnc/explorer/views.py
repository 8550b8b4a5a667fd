"""A trace as JSON for the page: figures, numbers and text."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import plotly.graph_objects as go

from constrained_dnc import published
from constrained_dnc.choices import PAPER_RULE
from constrained_dnc.explorer import figures, scores
from constrained_dnc.explorer.models import MAX_DRAWN_LENGTH, Model
from constrained_dnc.explorer.traces import (
    COMPANIONS,
    MAX_DRAWN_SLOTS,
    PER_SLOT,
    Trace,
    arrays,
    state_paths,
)


def score_figure(trace: Trace) -> go.Figure | None:
    """Stored scores of the model; None where there are none."""
    model = trace.model
    if not model.curves:
        return None
    return figures.score_figure(
        model.scores,
        trace.batch.length,
        model.training_lengths,
        published.max_lengths(False).get((model.task.name, model.approach)),
        [curve.name for curve in model.curves if curve.rule == PAPER_RULE],
    )


@dataclass(frozen=True)
class Panel:
    """A panel of the page, drawn from a trace and the number of slots shown."""

    name: str
    title: str
    note: str
    draw: Callable[[Trace, int], go.Figure | None]
    over_time: bool = False
    over_slots: bool = False
    column: int = 0


PANELS = (
    Panel(
        "states", "Cell state",
        "the state that the controller carries, in the plane of its first two principal "
        f"components; thin: {COMPANIONS} random problems as long. Look whether all problems share "
        "one narrow path, with places that are visited again and again (a small machine, which can "
        "go on like that on longer inputs), or whether paths spread and drift.",
        lambda trace, slots: None,  # it needs other problems: `states` draws it
    ),
    Panel(
        "tape", "Tape",
        "symbols in the cells, what the network sees as colours; blank: no input (the "
        "network sees 0), or the loss does not look",
        lambda trace, slots: figures.tape_figure(trace.model.task, trace.batch, trace.outputs),
        over_time=True,
    ),
    Panel(
        "write_weights", "Write weights",
        "where the write head writes; click a slot to follow it",
        lambda trace, slots: figures.write_weights_figure(trace.internals, slots=slots),
        over_time=True, over_slots=True,
    ),
    Panel(
        "read_weights", "Read weights",
        "where each read head reads",
        lambda trace, slots: figures.read_weights_figure(trace.internals, slots=slots),
        over_time=True, over_slots=True,
    ),
    Panel(
        "usage", "Usage",
        "how much of a slot is in use",
        lambda trace, slots: figures.usage_figure(trace.internals, slots=slots),
        over_time=True, over_slots=True,
    ),
    Panel(
        "gates", "Gates",
        "write, allocation (0 = by content, 1 = new slot) and free gates",
        lambda trace, slots: figures.gates_figure(trace.internals),
        over_time=True,
    ),
    Panel(
        "read_modes", "Read modes",
        "backward, forward or by content",
        lambda trace, slots: figures.read_modes_figure(trace.internals),
        over_time=True,
    ),
    Panel(
        "strengths", "Strengths",
        "how sharply a head looks up by content",
        lambda trace, slots: figures.strengths_figure(trace.internals),
        over_time=True,
    ),
    Panel(
        "slot", "One slot",
        "written, read and used through time",
        lambda trace, slots: figures.slot_figure(trace.internals, 1),
        over_time=True, column=1,
    ),
    Panel(
        "memory", "Memory",
        "the memory matrix after this step",
        lambda trace, slots: figures.memory_figure(trace.internals, 1, slots=slots),
        over_slots=True, column=1,
    ),
    Panel(
        "link", "Link",
        "which slot was written after which",
        lambda trace, slots: figures.link_figure(trace.internals, 1, slots=slots),
        over_slots=True, column=1,
    ),
    Panel("scores", "Score against length", "", lambda trace, slots: score_figure(trace), column=1),
)  # fmt: skip


def describe_panels() -> list[dict[str, Any]]:
    """The panels in JSON, for the page."""
    return [
        {field.name: getattr(panel, field.name) for field in fields(panel) if field.name != "draw"}
        for panel in PANELS
    ]


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
    drawn = {panel.name: panel.draw(trace, slots) for panel in PANELS}
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
        "touched": figures.TOUCHED,
        "heads": trace.internals.interface.free_gates.shape[-1],
        "word": trace.internals.memory.memory.shape[-1],
        "score": trace.score,
        "score_kind": trace.model.task.score_kind,
        "answer_note": trace.model.task.answer_note,
        "entries": [[entry.right, entry.answer, entry.is_right] for entry in trace.entries],
        "scores_note": scores_note(trace.model),
        "arrays": {name: packed(array) for name, array in needed.items()},
        "figures": {name: as_json(figure) for name, figure in drawn.items() if figure is not None},
    }


def states(trace: Trace) -> dict[str, Any] | None:
    """The figure of the cell states and the path on it; None without states."""
    paths = state_paths(trace)
    if paths is None:
        return None
    figure = figures.states_figure(paths, trace.encoding_steps)
    return {"figure": as_json(figure), "path": packed(paths[:, 0])}


def scores_note(model: Model) -> str:
    """The stored numbers and the paper's, each with its rule, iteration and memory."""
    stored = scores.describe_curves(model.curves, model.iterations)
    if not stored and model.rule:
        stored = f"No scores are stored; `cdnc evaluate {model.name}` makes them."
    paper = scores.describe_paper(model.task.name, model.approach)
    return f"{stored} {paper}".rstrip()


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
