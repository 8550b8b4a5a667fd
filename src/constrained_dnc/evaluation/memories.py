"""Which memory a trained model is given: a number of slots, or one that grows with its input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from constrained_dnc.errors import RunProblem
from constrained_dnc.files import read_json, write_json
from constrained_dnc.model.config import GROWING, MemorySize
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.shapes import Array, Float
from constrained_dnc.tasks.task import Batch
from constrained_dnc.training.disk import FREE_CAPACITY
from constrained_dnc.training.run import Run
from constrained_dnc.training.streams import evaluation_batch
from constrained_dnc.words import Memory, Rule

EXTENSION = 10
"""How many times larger the extended memory is."""


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


def extended(trained: int) -> int:
    """The size of the extended memory."""
    return EXTENSION * trained


def memory_for(run: Run, memory_size: MemorySize, selection: Rule) -> int | Growing:
    """What the backends take for a memory size."""
    if memory_size != GROWING:
        return memory_size
    trained = run.config.model.memory_size
    return Growing(trained, min(free_capacity_of(run, selection), float(trained)))


def free_capacity_of(run: Run, selection: Rule) -> float:
    """The least free capacity that selected parameters have at training lengths, F.

    Measured on one batch of the longest training length, then kept in the run directory.
    """
    selected = run.selected(selection)
    path = run.folder / FREE_CAPACITY
    stored = read_json(path) if path.exists() else {}
    known = stored.get(selection)
    if isinstance(known, dict) and known.get("iteration") == selected.iteration:
        try:
            return float(known["free_capacity"])
        except (KeyError, TypeError, ValueError) as error:
            raise RunProblem(f"{path} cannot be read: no free capacity of {selection}") from error
    batch = evaluation_batch(run.task, run.config, run.config.training.max_length, 0)
    found = least_free_capacity(selected.model, batch)
    if not run.is_pretrained:
        about = {"iteration": selected.iteration, "free_capacity": found}
        write_json(path, {**stored, selection: about})
    return found


def least_free_capacity(model: DNC, batch: Batch) -> float:
    """The least sum of 1 - usage over the slots, of all samples and their own steps.

    Down to a thousandth, so that no rounding error of a backend looks like a full memory.
    """
    usage = np.asarray(_usage(model, jnp.asarray(batch.inputs)), np.float64)
    free = (1 - usage).sum(axis=-1)
    steps = np.arange(len(free))[:, None] < batch.num_steps
    return max(0.0, math.floor(1000 * free[steps].min()) / 1000)


@eqx.filter_jit
def _usage(
    model: DNC, inputs: Float[Array, "time batch inputs"]
) -> Float[Array, "time batch slots"]:
    inside = model.unroll(inputs, internals=True).internals
    assert inside is not None
    return inside.memory.usage
