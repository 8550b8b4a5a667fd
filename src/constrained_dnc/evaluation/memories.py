"""Which memory a trained model is given: a number of slots, or one that grows with its input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from constrained_dnc.choices import RULES, Memory, extended
from constrained_dnc.errors import RunError
from constrained_dnc.files import read_json, write_json
from constrained_dnc.model.config import GROWING, MemorySize
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.shapes import Array, Float
from constrained_dnc.tasks.task import Batch
from constrained_dnc.training.disk import FREE_CAPACITY
from constrained_dnc.training.run import Run, Selected
from constrained_dnc.training.streams import evaluation_batch


def source_of(memory_size: MemorySize, trained: int) -> str:
    """Where a memory size comes from, as results call it."""
    found = {size: memory for memory, size in memory_sizes(trained).items()}
    return found.get(memory_size, "given")


def memory_sizes(trained: int) -> dict[Memory, MemorySize]:
    """The sizes of the memories that are compared, from the slots of training."""
    return {"trained": trained, "extended": extended(trained), "growing": GROWING}


def size_in(row: Mapping[str, Any]) -> MemorySize:
    """The memory size that a row of results is about, of which `source_of` is one column."""
    return GROWING if row["memory"] == GROWING else int(row["memory_size"])


def model_for(run: Run, memory_size: MemorySize, selected: Selected) -> DNC:
    """The selected model with that memory."""
    if memory_size != GROWING:
        return selected.model.with_memory_size(memory_size)
    trained = run.config.model.memory_size
    capacity = min(free_capacity_of(run, selected), float(trained))
    growing = Growing(trained, capacity, limit=max(Growing.limit, 2 * trained))
    return selected.model.with_memory_size(growing)


def free_capacity_of(run: Run, selected: Selected) -> float:
    """The least free capacity that selected parameters have at training lengths, F.

    Measured on one batch of the longest training length, then kept in the run directory.
    """
    known, rule = _known_free_capacities(run), selected.rule
    if rule in known and known[rule]["iteration"] == selected.iteration:
        return float(known[rule]["free_capacity"])
    batch = evaluation_batch(run.task, run.config, run.config.training.max_length, 0)
    found = least_free_capacity(selected.model, batch)
    if not run.is_pretrained:
        known[rule] = {"iteration": selected.iteration, "free_capacity": found}
        with suppress(RunError):  # a run on a read-only disk can be used, too
            write_json(run.folder / FREE_CAPACITY, known)
    return found


def _known_free_capacities(run: Run) -> dict[str, dict[str, Any]]:
    """What was measured of this run; what is damaged or of another run can be measured again."""
    path = run.folder / FREE_CAPACITY
    try:
        stored = read_json(path)
    except RunError:
        return {}
    most = run.config.model.memory_size
    return {rule: stored[rule] for rule in RULES if _is_capacity(stored.get(rule), most)}


def _is_capacity(about: Any, most: int) -> bool:
    """Whether this is an iteration and its free capacity, a number of slots up to `most`."""
    if not isinstance(about, dict) or type(about.get("iteration")) is not int:
        return False
    capacity: Any = about.get("free_capacity")
    return type(capacity) in (int, float) and 0 <= capacity <= most


def least_free_capacity(model: DNC, batch: Batch) -> float:
    """The least sum of 1 - usage over the slots, of all samples and their own steps.

    Down to a thousandth, so that no rounding error of a backend looks like a full memory. A model
    that computes NaN has none, and its memory never grows.
    """
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
