"""A trace as JSON for the page: figures, numbers, text and the machine inside the model."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from constrained_dnc.config import INFERENCES
from constrained_dnc.explorer import figures
from constrained_dnc.explorer.models import MAX_DRAWN_LENGTH, first_length, stored_curves
from constrained_dnc.explorer.traces import (
    MAX_DRAWN_SLOTS,
    PER_SLOT,
    Trace,
    arrays,
    state_paths,
    with_memory,
)
from constrained_dnc.machine.extraction import Extraction, extract_machine
from constrained_dnc.machine.graph import edges
from constrained_dnc.training.folder import ENDED
from constrained_dnc.training.run import TrainedModel

MOST_STATES = 40
"""More do not fit on a circle."""


def machine_view(trace: Trace) -> dict[str, Any]:
    """The graph of the model's machine and its state after each step, or why there is none."""
    extraction = _machine_of(trace.model)
    machine, task = extraction.machine, trace.model.task
    if not extraction.is_faithful or len(machine.state_names) > MOST_STATES:
        return {"words": "No small machine can replace this controller at its training lengths."}
    run = machine.apply(with_memory(trace.model, trace.memory_size)).unroll(trace.batch.inputs)
    score = float(task.score(trace.batch, np.asarray(run.outputs)).score[0])
    return {
        "words": f"With this machine as its controller the model scores {score:.0%} here.",
        "states": machine.state_names,
        "edges": [[*pair, ", ".join(names)] for pair, names in edges(machine).items()],
        "start": machine.start,
        "path": np.asarray(run.cell_states)[:, 0].argmax(-1).tolist(),
    }


@lru_cache(16)
def _machine_of(model: TrainedModel) -> Extraction:
    shortest, longest = model.training_lengths
    return extract_machine(model.model, model.task, lengths=range(shortest, longest + 1))


def draw(trace: Trace) -> dict[str, go.Figure]:
    """The figures by panel: all but the cell states, which need other problems and come later."""
    model, inside = trace.model, trace.internals
    drawn = {
        "tape": figures.tape_figure(model.task, trace.batch, trace.outputs),
        "write_weights": figures.write_weights_figure(inside),
        "read_weights": figures.read_weights_figure(inside),
        "usage": figures.usage_figure(inside),
        "gates": figures.gates_figure(inside),
        "read_modes": figures.read_modes_figure(inside),
        "strengths": figures.strengths_figure(inside),
        "slot": figures.slot_figure(inside, 1),
        "memory": figures.memory_figure(inside, 1),
        "link": figures.link_figure(inside, 1),
    }
    if curves := stored_curves(model):
        from constrained_dnc.report import published  # noqa: PLC0415 - slow to import

        paper = published.max_lengths(False).get((model.task.name, _approach(model)))
        drawn["scores"] = figures.score_figure(
            curves, trace.batch.length, model.training_lengths, paper
        )
    return drawn


def _approach(model: TrainedModel) -> str:
    return model.run.config.approach.name if model.run else "a model from Python"


def describe(model: TrainedModel) -> dict[str, Any]:
    """A model's metadata, for the page."""
    training, run = model.training, model.run
    status = run.status if run else None
    is_training = status is not None and status.state == "training"
    state = "no run"
    if status is not None:
        progress = f"{status.iteration} of {status.iterations}"
        state = f"{status.state} after {progress} iterations"
        state = f"training, iteration {progress}" if is_training else state
    lengths = (4, training.max_length, training.unseen_length, 2 * training.unseen_length)
    return {
        "name": model.name,
        "approach": _approach(model),
        "iteration": model.iteration,
        "rule": model.rule,
        "rules": run.rules if run else [],
        "inference": model.inference,
        "inferences": INFERENCES if run else ["network"],
        "state": state,
        "is_training": is_training,
        "has_ended": status is None or status.state in ENDED,
        "memory_size": model.slots,
        "training_lengths": model.training_lengths,
        "task": model.task.name,
        "summary": model.task.summary,
        "max_slots": MAX_DRAWN_SLOTS,
        "max_length": MAX_DRAWN_LENGTH,
        "first_length": first_length(model),
        "first_compared_length": first_length(model, is_compared=True),
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
        "entries": trace.entries,
        "arrays": {name: packed(array) for name, array in needed.items()},
        "figures": {name: as_json(figure) for name, figure in draw(trace).items()},
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
    """An array as base64 for JSON."""
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
