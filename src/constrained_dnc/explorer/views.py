"""An attempt as the page gets it: one JSON object with figures, numbers and words."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from constrained_dnc import published
from constrained_dnc.choices import PAPER_RULE
from constrained_dnc.explorer import figures, scores
from constrained_dnc.explorer.attempts import (
    MOST_DRAWN_SLOTS,
    OVER_SLOTS,
    Attempt,
    arrays,
    state_paths,
)
from constrained_dnc.explorer.models import LONGEST_DRAWN, Model


def describe(model: Model) -> dict[str, Any]:
    """What the page says about a model."""
    training = model.config.training
    lengths = (4, training.max_length, training.unseen_length, 2 * training.unseen_length)
    return {
        "name": model.name,
        "task": model.task.name,
        "summary": model.task.summary,
        "approach": model.config.approach.name,
        "iteration": model.iteration,
        "rule": model.run.default_rule,
        "state": model.state,
        "is_training": model.is_training,
        "memory_size": model.memory_size,
        "most_slots": MOST_DRAWN_SLOTS,
        "longest": LONGEST_DRAWN,
        "training_lengths": model.training_lengths,
        "first": model.first_length,
        "examples": sorted({min(length, LONGEST_DRAWN) for length in lengths}),
    }


def view(found: Attempt) -> dict[str, Any]:
    """Everything about an attempt that does not need other problems."""
    shown = figures.slots_in_play(found.internals)
    named = arrays(found)
    # what the browser follows slots and builds the two matrices from, step by step
    needed = {"memory": named["memory"][:, :shown]}
    for name in OVER_SLOTS:
        needed[name] = named[name][..., :shown]
    for name in ("write_gate", "allocation_gate", "read_modes"):
        needed[name] = named[name]
    return {
        "model": describe(found.model),
        "problem": found.text,
        "length": found.batch.length,
        "memory_size": found.memory_size,
        "all_slots": found.slots,
        "steps": len(found.outputs),
        "encoding_steps": found.encoding_steps,
        "first_result_step": found.first_result_step,
        "slots": shown,
        "touched": figures.TOUCHED,
        "heads": found.model.config.model.num_reads,
        "word": found.model.config.model.word_size,
        "score": found.score,
        "score_kind": found.model.task.score_kind,
        "answer_note": found.model.task.answer_note,
        "entries": [[entry.right, entry.given, entry.is_right] for entry in found.entries],
        "scores_note": scores_note(found.model),
        "arrays": {name: packed(array) for name, array in needed.items()},
        "figures": {name: as_json(figure) for name, figure in drawn(found, shown).items()},
    }


def drawn(found: Attempt, shown: int) -> dict[str, go.Figure]:
    """The figures of an attempt by the name of their panel."""
    inside = found.internals
    plots = {
        "tape": figures.tape_figure(found.model.task, found.batch, found.outputs),
        "write_weights": figures.write_weights_figure(inside, slots=shown),
        "read_weights": figures.read_weights_figure(inside, slots=shown),
        "usage": figures.usage_figure(inside, slots=shown),
        "gates": figures.gates_figure(inside),
        "read_modes": figures.read_modes_figure(inside),
        "strengths": figures.strengths_figure(inside),
        "slot": figures.slot_figure(inside, 1),
        "memory": figures.memory_figure(inside, 1, slots=shown),
        "link": figures.link_figure(inside, 1, slots=shown),
    }
    of = found.model.task.name, found.model.config.approach.name
    if found.model.curves:
        plots["scores"] = figures.score_figure(
            found.model.scores,
            found.batch.length,
            found.model.training_lengths,
            published.max_lengths(False).get(of),
            [curve.name for curve in found.model.curves if curve.rule == PAPER_RULE],
        )
    return plots


def states(found: Attempt) -> dict[str, Any] | None:
    """The figure of the cell states and the path on it; None without states."""
    paths = state_paths(found)
    if paths is None:
        return None
    figure = figures.states_figure(paths, found.encoding_steps)
    return {"figure": as_json(figure), "path": packed(paths[:, 0])}


def scores_note(model: Model) -> str:
    """The stored numbers and the paper's, each with what it is of."""
    stored = scores.in_words(model.curves, model.iterations)
    if not stored:
        stored = f"No scores are stored; `cdnc evaluate {model.name}` makes them."
    paper = scores.paper_in_words(model.task.name, model.config.approach.name)
    return f"{stored} {paper}".rstrip()


def data_file(found: Attempt, step: int) -> bytes:
    """The numbers as npz, the link at one step among them."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays(found), link=figures.link_at(found.internals, step))
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
    """JSON that can stand inside a page.

    >>> dumps(["<!--<script>"])
    '["\\\\u003c!--\\\\u003cscript>"]'
    """
    return json.dumps(values, allow_nan=False).replace("<", "\\u003c")
