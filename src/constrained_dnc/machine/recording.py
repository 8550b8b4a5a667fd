"""What a network does at every step at training lengths, from which a machine is extracted.

States and commands are named by what happens around them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Float, Int

from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.states import side_by_side
from constrained_dnc.machine.automaton import Machine
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import Interface
from constrained_dnc.tasks.task import AbstractTask, Batch

MAX_INPUTS = 64
"""Different input vectors that a task may have."""
SURE = 0.95
"""The share of visits that a name must hold for."""
MOST_INPUTS = 2
"""In the name of a state that stands for the input just read."""


@dataclass(frozen=True)
class Recording:
    """Every step of a network on samples of several lengths, one row per step.

    `after` numbers the step before (-1 at the start of a sample): its state and its reads are what
    the controller sees.
    """

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
    symbol = symbol.reshape(-1)
    input_names, output_names = (names[time, sample] for names in _labels(task, batches, outputs))
    names = [set(input_names[symbol == index]) for index in range(len(vectors))]
    encoding = np.concatenate([np.full(samples, task.encoding_steps(length)) for length in lengths])
    return Recording(
        inputs=vectors,
        input_names=tuple(" or ".join(sorted(group)) for group in names),
        symbol=symbol,
        after=np.where(time == 0, -1, row[time - 1, sample]),
        state=state[time, sample],
        reads=reads[time, sample],
        hidden=hidden[time, sample],
        command=command[time, sample],
        output_names=tuple(output_names),
        is_encoding=time < encoding[sample],
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
) -> tuple[Any, Any]:
    """The symbols of inputs and of outputs, by step and sample."""
    seen, said = np.full((2, *outputs.shape[:2]), "", object)
    samples = [(batch, index) for batch in batches for index in range(len(batch.problems))]
    for column, (batch, index) in enumerate(samples):
        steps = len(batch.inputs)
        seen[:steps, column] = _input_names(task, batch, index)
        values = outputs[:steps, column].astype(np.float64)
        labels = task.output_labels(values, batch.length).values()
        said[:steps, column] = [" ".join(_at(step, labels)) for step in range(steps)]
    return seen, said


def _input_names(task: AbstractTask, batch: Batch, index: int) -> list[str]:
    """The text of every input: its symbols, or the name of a channel that is on or off."""
    labels = task.cell_labels(batch.problems[index])
    if labels is None:
        return [" ".join(f"{value:g}" for value in step) for step in batch.inputs[:, index]]
    names = []
    for step in range(len(batch.inputs)):
        channels = [channel for channel, column in labels[0].items() if step in column]
        is_switch = channels and (channels[0] == task.input_channels[-1] or len(channels[0]) == 1)
        text = channels[0] if is_switch else " ".join(_at(step, labels[0].values()))
        names.append(text or "blank")
    return names


def _at(step: int, columns: Iterable[dict[int, str]]) -> list[str]:
    return [column[step] for column in columns if step in column]


def named(
    machine: Machine, recording: Recording, steps: Int[np.ndarray, "steps 3"], model: DNC
) -> Machine:
    """The machine with names for its states and commands, and what the network says.

    `steps` are the state, input symbol and read symbol that each step of the recording begins with.
    """
    states = range(len(machine.next_state))
    return replace(
        machine,
        state_names=_numbered([_state_name(state, recording, steps[:, 0]) for state in states]),
        command_names=_numbered([_command_name(hidden, model) for hidden in machine.hidden]),
        answers=_answers(recording, steps),
    )


def _answers(
    recording: Recording, steps: Int[np.ndarray, "steps 3"]
) -> dict[tuple[int, int, int], str]:
    said: defaultdict[tuple[int, int, int], Counter[str]] = defaultdict(Counter)
    for (state, symbol, read), name in zip(steps.tolist(), recording.output_names, strict=True):
        said[state, symbol, read][name] += 1
    return {
        transition: name if count >= SURE * names.total() else "varies"
        for transition, names in said.items()
        for name, count in names.most_common(1)
    }


def _state_name(state: int, recording: Recording, before: Int[np.ndarray, "steps"]) -> str:
    """The name of a state: the input that led there, or the phase of the task."""
    led = recording.after[before == state]  # the steps before those that begin in this state
    if not len(led):
        return "end"
    led = led[led >= 0]
    if not len(led):
        return "start"
    encoding = recording.is_encoding[led].mean()
    if encoding < SURE:
        return "answering" if encoding <= 1 - SURE else "both phases"
    ranked = Counter(recording.symbol[led].tolist()).most_common()
    if sum(count for _, count in ranked[:MOST_INPUTS]) < SURE * len(led):
        return "taking input"
    names = [recording.input_names[symbol].removesuffix(" or blank") for symbol, _ in ranked]
    return "just read " + " or ".join(sorted(names[:MOST_INPUTS]))


def _command_name(hidden: Float[np.ndarray, "hidden"], model: DNC) -> str:
    """What a command does to the memory, or a plain word for memories without known parts."""
    parts = model.memory.split(model.interface_weight @ hidden + model.interface_bias)
    if not isinstance(parts, Interface):
        return "command"
    modes = np.asarray(parts.read_modes)  # backward, forward, content
    moves = [("back", "on", "by content")[int(mode)] for mode in modes.argmax(axis=1)]
    reading = "read " + " and ".join(dict.fromkeys(moves))
    if float(parts.write_gate) < 0.5:
        return reading
    where = "a new slot" if float(parts.allocation_gate) >= 0.5 else "a slot by content"
    return f"write to {where}, {reading}"


def _numbered(names: list[str]) -> tuple[str, ...]:
    """Names with numbers where several are equal.

    >>> _numbered(["start", "answering", "answering"])
    ('start', 'answering (1)', 'answering (2)')
    """
    counts, used = Counter(names), Counter[str]()
    result = []
    for name in names:
        used[name] += 1
        result.append(f"{name} ({used[name]})" if counts[name] > 1 else name)
    return tuple(result)
