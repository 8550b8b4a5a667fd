"""Running a trained model with another memory: a number of slots, or one that grows."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from constrained_dnc.errors import RunError
from constrained_dnc.files import read_json, write_json
from constrained_dnc.model.backend import AbstractBackend
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.shapes import Array, Float
from constrained_dnc.tasks.task import Batch
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.folder import FREE_CAPACITY
from constrained_dnc.training.run import Run, Selected


def outputs_of(
    backend: AbstractBackend,
    model: DNC,
    memory: int | Growing,
    inputs: Float[Any, "time batch inputs"],
) -> Float[np.ndarray, "time batch outputs"]:
    """The outputs of a model that runs with this memory instead of the one in training."""
    return np.asarray(
        backend.forward(model.with_memory_size(memory), inputs, keep_state=False).outputs
    )


def growing_memory(training_slots: int, free_capacity: float) -> Growing:
    """The growing memory of a model trained with that many slots."""
    capacity = min(free_capacity, float(training_slots))
    return Growing(training_slots, capacity, limit=max(Growing.limit, 2 * training_slots))


def free_capacity_of(run: Run, selected: Selected) -> float:
    """F, the least free capacity of selected parameters in training.

    It is measured on one batch of the longest training length and stored in the run directory.
    """
    path, known = run.folder / FREE_CAPACITY, {}
    with suppress(RunError):  # absent or corrupt: measure it again
        known = read_json(path)
    stored = known.get(selected.rule)
    if isinstance(stored, dict) and stored.get("iteration") == selected.iteration:
        return float(stored["free_capacity"])
    batch = evaluation_batch(run.task, run.config.evaluation, run.config.training.max_length, 0)
    capacity = least_free_capacity(selected.model, batch)
    if not run.is_pretrained:
        known[selected.rule] = {"iteration": selected.iteration, "free_capacity": capacity}
        with suppress(RunError):  # the run may be on a read-only disk
            write_json(path, known)
    return capacity


def least_free_capacity(model: DNC, batch: Batch) -> float:
    """The minimum over samples and steps of the sum of 1 - usage over slots.

    It is rounded down to a thousandth, so that a rounding error of a backend does not look like a
    full memory. It is 0 for a model that computes NaN: its memory never grows.
    """
    model.memory.require_growth()
    usage = np.asarray(_usage(model, jnp.asarray(batch.inputs)), np.float64)
    free = (1 - usage).sum(axis=-1)
    steps = np.arange(len(free))[:, None] < batch.num_steps
    least = float(free[steps].min())
    return max(0.0, math.floor(1000 * least) / 1000) if math.isfinite(least) else 0.0


@eqx.filter_jit
def _usage(
    model: DNC, inputs: Float[Array, "time batch inputs"]
) -> Float[Array, "time batch slots"]:
    inside = model.unroll(inputs, internals=True).internals
    assert inside is not None
    return inside.memory.usage
