"""The machine inside a model, at work on the problem of a trace."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from constrained_dnc.explorer.models import Model
from constrained_dnc.explorer.traces import Trace, with_memory
from constrained_dnc.machine.extraction import Extraction, extract_machine
from constrained_dnc.machine.graph import edges

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
def _machine_of(model: Model) -> Extraction:
    shortest, longest = model.training_lengths
    return extract_machine(model.dnc, model.task, lengths=range(shortest, longest + 1))
