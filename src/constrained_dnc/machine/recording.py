"""What a network does at every step at training lengths: the data a machine is extracted from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Float, Int

from constrained_dnc.digital.states import side_by_side
from constrained_dnc.errors import SettingError
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.task import AbstractTask, Batch, CellLabels

MAX_INPUTS = 64
"""Different input vectors that a task may have."""


@dataclass(frozen=True)
class Recording:
    """Every step of a network on samples of several lengths, one row per step.

    `after` numbers the step before (-1 at the start of a sample): its state and its reads are what
    the controller sees.
    """

    batches: tuple[Batch, ...]
    inputs: Float[np.ndarray, "symbols inputs"]  # the different input vectors
    input_names: tuple[str, ...]  # a numeral may look like a blank: "2 or blank"
    symbol: Int[np.ndarray, "steps"]  # which of them
    after: Int[np.ndarray, "steps"]
    state: Float[np.ndarray, "steps state"]  # carried to the next step
    reads: Float[np.ndarray, "steps read_size"]
    hidden: Float[np.ndarray, "steps hidden"]
    command: Float[np.ndarray, "steps command"]  # interface and what h adds to the output
    output_names: tuple[str, ...]  # of each step
    is_encoding: Bool[np.ndarray, "steps"]
    is_last: Bool[np.ndarray, "steps"]


def record(
    model: DNC, task: AbstractTask, lengths: Sequence[int], samples: int, seed: int
) -> Recording:
    """Run `samples` inputs of every length."""
    batches = [task.sample((seed, 0, length), samples, length) for length in lengths]
    inputs = side_by_side(batches)
    arrays = [np.asarray(array) for array in _run(model, inputs)]
    if not all(np.isfinite(array).all() for array in arrays):
        raise SettingError("a model whose states are not finite has no machine")
    state, reads, hidden, command, outputs = arrays
    num_steps = np.concatenate([batch.num_steps for batch in batches])
    time, sample = np.nonzero(np.arange(len(inputs))[:, np.newaxis] < num_steps)
    row = np.full(inputs.shape[:2], -1)
    row[time, sample] = np.arange(len(time))
    vectors, symbol = np.unique(inputs[time, sample], axis=0, return_inverse=True)
    if len(vectors) > MAX_INPUTS:
        raise SettingError(
            f"{task.name} has more than {MAX_INPUTS} different inputs, too many for a machine"
        )
    input_names, output_names = _labels(task, batches, outputs)
    names: list[set[str]] = [set() for _ in vectors]
    for place, t, s in zip(symbol.reshape(-1), time, sample, strict=True):
        names[place].add(input_names[t][s])
    encoding = np.concatenate([np.full(samples, task.encoding_steps(length)) for length in lengths])
    return Recording(
        batches=tuple(batches),
        inputs=vectors,
        input_names=tuple(" or ".join(sorted(each)) for each in names),
        symbol=symbol.reshape(-1),
        after=np.where(time == 0, -1, row[time - 1, sample]),
        state=state[time, sample],
        reads=reads[time, sample],
        hidden=hidden[time, sample],
        command=command[time, sample],
        output_names=tuple(output_names[t][s] for t, s in zip(time, sample, strict=True)),
        is_encoding=time < encoding[sample],
        is_last=time == num_steps[sample] - 1,
    )


@eqx.filter_jit
def _run(model: DNC, inputs: Any) -> Any:
    """Carried states, reads, hidden vectors, commands and outputs of all steps."""

    def one(x: Any, state: Any) -> Any:
        outputs, state, inside = model.step(x, state)
        share = model.output_weight @ inside.hidden
        command = jnp.concatenate([ravel_pytree(inside.interface)[0], share])
        carried = ravel_pytree(state.controller)[0]
        return state, (carried, state.reads, inside.hidden, command, outputs)

    start = model.initial_states(inputs.shape[1], len(inputs))
    return jax.lax.scan(lambda state, x: jax.vmap(one)(x, state), start, jnp.asarray(inputs))[1]


def _labels(
    task: AbstractTask, batches: Sequence[Batch], outputs: Float[np.ndarray, "time batch outputs"]
) -> tuple[list[list[str]], list[list[str]]]:
    """The symbols of inputs and outputs by step and sample."""
    size = outputs.shape[:2]
    seen, said = np.full(size, "", object), np.full(size, "", object)
    start = 0
    for batch in batches:
        steps = len(batch.inputs)
        for sample, problem in enumerate(batch.problems, start):
            cells = task.cell_labels(problem)
            values = batch.inputs[:, sample - start]
            for step in range(steps):
                seen[step, sample] = _input_name(
                    task, None if cells is None else cells[0], values[step], step
                )
            answer = task.output_labels(outputs[:steps, sample].astype(np.float64), batch.length)
            for step in range(steps):
                names = [column[step] for column in answer.values() if step in column]
                said[step, sample] = " ".join(names)
        start += len(batch.problems)
    return seen.tolist(), said.tolist()


def _input_name(
    task: AbstractTask, cells: CellLabels | None, values: Float[np.ndarray, "inputs"], step: int
) -> str:
    """The text of one input: its symbols, or the name of a channel that is on or off."""
    if cells is None:
        return " ".join(f"{value:g}" for value in values)
    labels = {channel: column[step] for channel, column in cells.items() if step in column}
    if not labels:
        return "blank"
    channel = next(iter(labels))
    is_switch = channel == task.input_channels[-1] or len(channel) == 1
    return channel if is_switch else " ".join(labels.values())
