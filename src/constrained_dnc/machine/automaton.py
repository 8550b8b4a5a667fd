"""A Mealy machine in place of a controller: its table, minimisation, and the network it runs in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from constrained_dnc.model.controllers import AbstractController, ControllerStep
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.leaves import with_fields
from constrained_dnc.shapes import Array, Float, Int

UNKNOWN = -1
"""In a table: a transition of a state and an input that never occurred together."""


class TableController(AbstractController):
    """Looks up (state, input symbol, read symbol) in a table; its carried state is one-hot."""

    inputs: Float[Array, "symbols inputs"]
    reads: Float[Array, "read_symbols read_size"]
    next_state: Int[Array, "states symbols read_symbols"]
    command: Int[Array, "states symbols read_symbols"]
    hidden: Float[Array, "commands hidden"]
    start: Int[Array, ""]
    hidden_size: int = eqx.field(static=True)

    def initial_state(self) -> Float[Array, "states"]:
        return jax.nn.one_hot(self.start, len(self.next_state), dtype=self.hidden.dtype)

    def __call__(
        self, inputs: Float[Array, "chi"], state: Float[Array, "states"]
    ) -> ControllerStep:
        x, reads = jnp.split(inputs, [self.inputs.shape[-1]])
        index = jnp.argmax(state), _nearest(self.inputs, x), _nearest(self.reads, reads)
        after = jax.nn.one_hot(self.next_state[index], len(state), dtype=state.dtype)
        return ControllerStep(self.hidden[self.command[index]], after)

    def cell_state(self, state: Float[Array, "states"]) -> Float[Array, "states"]:
        return state


def _nearest(points: Float[Array, "count size"], vector: Float[Array, "size"]) -> Int[Array, ""]:
    """The index of the point nearest to a vector, the first of equals."""
    return jnp.argmin(jnp.sum((points - vector) ** 2, axis=-1))


@dataclass(frozen=True)
class Machine:
    """A table (state, input symbol, read symbol) -> (next state, command).

    A command is what the controller sends at a step: an interface vector for the memory and a share
    of the output, both linear in a hidden vector, here the mean of those that the command stands
    for. A read symbol is the nearest of a few read vectors, those of the step before.
    """

    inputs: Float[np.ndarray, "symbols inputs"]
    input_names: tuple[str, ...]
    reads: Float[np.ndarray, "read_symbols read_size"]
    hidden: Float[np.ndarray, "commands hidden"]
    next_state: Int[np.ndarray, "states symbols read_symbols"]
    command: Int[np.ndarray, "states symbols read_symbols"]
    counts: Int[np.ndarray, "states symbols read_symbols"]  # how often it was seen
    start: int
    state_names: tuple[str, ...] = ()
    command_names: tuple[str, ...] = ()
    answers: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    """What the network says at a seen transition, or "varies", with what it reads."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Numbers of states, read symbols and commands."""
        return len(self.next_state), len(self.reads), len(self.hidden)

    def transitions(self) -> list[tuple[int, int, int]]:
        """State, input symbol and read symbol of every transition that was seen."""
        visited = np.argwhere(self.counts > 0).tolist()
        return [(state, symbol, read) for state, symbol, read in visited]

    def apply(self, model: DNC) -> DNC:
        """The model with this machine in place of the controller and of constraints on its state.

        Args:
            model: The model that the machine was extracted from.
        """
        next_state, command = self._completed()
        controller = TableController(
            inputs=jnp.asarray(self.inputs),
            reads=jnp.asarray(self.reads),
            next_state=jnp.asarray(next_state),
            command=jnp.asarray(command),
            hidden=jnp.asarray(self.hidden),
            start=jnp.asarray(self.start),
            hidden_size=self.hidden.shape[1],
        )
        kept = tuple(
            constraint for constraint in model.constraints if constraint.acts_on == "reads"
        )
        return with_fields(model, controller=controller, constraints=kept)

    def padded(self, states: int, reads: int, commands: int) -> Machine:
        """Padded with unused entries, so that machines of one size share a compiled program.

        Args:
            states: At least as many as the machine has; so, too, the others.
            reads: Read symbols.
            commands: Commands.
        """
        size = (states, len(self.inputs), reads)
        gap = [(0, new - old) for new, old in zip(size, self.next_state.shape, strict=True)]
        read_gap = ((0, reads - len(self.reads)), (0, 0))
        return replace(
            self,
            reads=np.pad(self.reads, read_gap, constant_values=np.inf),
            hidden=np.pad(self.hidden, ((0, commands - len(self.hidden)), (0, 0))),
            next_state=np.pad(self.next_state, gap, constant_values=UNKNOWN),
            command=np.pad(self.command, gap, constant_values=UNKNOWN),
            counts=np.pad(self.counts, gap),
        )

    def _completed(self) -> tuple[Int[np.ndarray, "..."], Int[np.ndarray, "..."]]:
        """The table without gaps: an unknown transition is that of the most frequent state."""
        next_state, command = self.next_state.copy(), self.command.copy()
        totals = self.counts.sum(axis=2)
        for symbol in range(len(self.inputs)):
            usual = int(np.argmax(totals[:, symbol]))
            gaps = np.nonzero(self.next_state[:, symbol, 0] == UNKNOWN)[0]
            next_state[gaps, symbol] = next_state[usual, symbol]
            command[gaps, symbol] = command[usual, symbol]
        return np.maximum(next_state, 0), np.maximum(command, 0)

    def minimised(self) -> tuple[Machine, Int[np.ndarray, "states"]]:
        """The smallest machine with the same behaviour, and which of its states each one became.

        States that cannot be reached are left out; they became UNKNOWN.
        """
        states = len(self.next_state)
        flat = self.next_state.reshape(states, -1), self.command.reshape(states, -1)
        became = minimise(*flat, self.start)
        kept = [int(np.argmax(became == label)) for label in range(became.max() + 1)]
        next_state = self.next_state[kept]
        next_state = np.where(next_state == UNKNOWN, UNKNOWN, became[next_state])
        used, command = np.unique(self.command[kept], return_inverse=True)
        commands = used[used != UNKNOWN]
        counts = np.zeros((len(kept), *self.counts.shape[1:]), np.int64)
        np.add.at(counts, became[became != UNKNOWN], self.counts[became != UNKNOWN])
        smaller = replace(
            self,
            hidden=self.hidden[commands],
            next_state=next_state,
            command=command.reshape(next_state.shape) - (len(used) - len(commands)),
            counts=counts,
            start=int(became[self.start]),
        )
        return smaller, became


def minimise(
    next_state: Int[np.ndarray, "states symbols"],
    output: Int[np.ndarray, "states symbols"],
    start: int,
) -> Int[np.ndarray, "states"]:
    """The class of every state of a Mealy machine: equal for states that no input tells apart.

    Moore's partition refinement. A missing transition, -1, differs from all others. Classes are
    numbered as they are reached from the start, breadth first; states that are not reached get -1.
    """
    reached = [start]
    for state in reached:
        reached += [q for q in dict.fromkeys(next_state[state].tolist()) if q not in (-1, *reached)]
    label = np.full(len(next_state), -1)
    rows = np.array(reached)
    label[rows] = 0
    while True:
        after = np.where(next_state[rows] < 0, -1, label[next_state[rows]])
        signature = np.concatenate([label[rows, np.newaxis], output[rows], after], axis=1)
        refined = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
        if refined.max() == label.max():
            break
        label[rows] = refined
    order = {old: new for new, old in enumerate(dict.fromkeys(label[rows].tolist()))}
    return np.array([order.get(int(old), -1) for old in label])
