"""What happens inside a trained model: the arrays of the state-space and memory analyses."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

from constrained_dnc.analysis.memory_modes import analyse_modes
from constrained_dnc.analysis.state_space import analyse_states
from constrained_dnc.model.dnc import DNC
from constrained_dnc.shapes import AnyArray, Array, Float
from constrained_dnc.training.run import Run
from constrained_dnc.training.streams import evaluation_batch


def analyse_run(run: Run) -> dict[str, Any]:
    """States at the unseen length of selection and access modes at the longest training length.

    In the paper these are 30 and 15. A controller without a state has no states, and those of a
    run that diverged may not be finite: then they are left out.
    """
    training, task = run.config.training, run.task
    model, memory_size = run.model, run.config.model.memory_size
    arrays: dict[str, Any] = {}
    batch = evaluation_batch(task, run.config, training.unseen_length, 0)
    states, _, _ = _inside(model, batch.inputs, memory_size)
    if states.shape[-1] and np.isfinite(states).all():
        encoding = task.encoding_steps(training.unseen_length)
        arrays |= analyse_states(np.asarray(states), encoding, batch.num_steps)
    batch = evaluation_batch(task, run.config, training.max_length, 0)
    _, gates, modes = _inside(model, batch.inputs, memory_size)
    encoding = task.encoding_steps(training.max_length)
    arrays |= analyse_modes(np.asarray(gates), np.asarray(modes), encoding_steps=encoding)
    return arrays


@eqx.filter_jit
def _inside(
    model: DNC, inputs: Float[AnyArray, "time batch inputs"], memory_size: int
) -> tuple[
    Float[Array, "time batch cell"],
    Float[Array, "time batch"],
    Float[Array, "time batch reads 3"],
]:
    """Cell states before compression, allocation gates and read modes of every step."""
    inside = model.unroll(inputs, memory_size, internals=True).internals
    assert inside is not None
    interface = inside.interface
    return inside.uncompressed_cell_state, interface.allocation_gate, interface.read_modes
