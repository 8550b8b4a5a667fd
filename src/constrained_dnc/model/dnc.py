"""A differentiable neural computer: controller + memory + output. Start reading here."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from constrained_dnc.errors import SettingError
from constrained_dnc.model.constraints import AbstractConstraint, Compression
from constrained_dnc.model.controllers import (
    AbstractController,
    ControllerState,
    ControllerStep,
    lecun_normal,
)
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.leaves import with_fields
from constrained_dnc.model.memory import AbstractMemory
from constrained_dnc.shapes import AnyArray, Array, Float, Int


class DNCState(eqx.Module):
    """Everything a DNC carries from step to step."""

    controller: ControllerState
    memory: Any  # a MemoryState for a DNCMemory
    reads: Float[Array, "*batch read_size"]  # r, all heads in one vector


class Internals(eqx.Module):
    """Internal values of one step or, from `unroll`, of all steps (time, batch first)."""

    hidden: Float[Array, "*steps hidden"]
    cell_state: Float[Array, "*steps cell"]  # carried: after constraints and clipping
    uncompressed_cell_state: Float[Array, "*steps cell"]  # before both
    states_before: tuple[Float[Array, "*steps _"], ...]  # or reads, that reach each constraint
    interface: Any  # as the memory splits it; an Interface for a DNCMemory
    memory: Any
    reads: Float[Array, "*steps read_size"]  # after constraints


class Unrolled(eqx.Module):
    """The result of running a DNC over a batch of sequences."""

    outputs: Float[Array, "time batch outputs"]
    cell_states: Float[Array, "time batch cell"]  # carried: after constraints and clipping
    states_before: tuple[Float[Array, "time batch _"], ...] = ()
    """The cell states, or reads, that reach each constraint; the fused kernel returns none."""
    internals: Internals | None = None  # of every step, if requested
    state: DNCState | None = None  # after the last step
    reads: Float[Array, "time batch read_size"] | None = None  # if a constraint acts on them


class DNC(eqx.Module):
    """A controller with an external memory.

    No parameter depends on the number of memory slots: `with_memory_size` gives a trained DNC
    another number, or a memory that grows.
    """

    controller: AbstractController
    memory: AbstractMemory
    constraints: tuple[AbstractConstraint, ...]  # on the controller's cell state, or on reads
    interface_weight: Float[Array, "interface hidden"]  # W_xi
    interface_bias: Float[Array, "interface"]
    output_weight: Float[Array, "outputs hidden"]  # W_y
    readout_weight: Float[Array, "outputs readout"]  # W_r
    output_bias: Float[Array, "outputs"]
    input_size: int = eqx.field(static=True)
    clip_value: float | None = eqx.field(static=True)
    training_lengths: tuple[int, int] | None = eqx.field(static=True)
    """The shortest and the longest input in training, if the model is that of a config."""

    def __init__(
        self,
        controller: AbstractController,
        memory: AbstractMemory,
        constraints: tuple[AbstractConstraint, ...] = (),
        *,
        input_size: int,
        output_size: int,
        clip_value: float | None,
        key: Array,
    ):
        """Initialise the weights between the parts.

        Args:
            controller: takes `input_size + memory.read_size` inputs.
            memory: gets `memory.interface_size` numbers at every step.
            constraints: on the controller's cell state or on reads, in their order.
            input_size: channels of the input.
            output_size: channels of the output.
            clip_value: the bound of controller output and state and of the output; None for none.
            key: for the initial weights.
        """
        interface_key, output_key, readout_key = jax.random.split(key, 3)
        interface, hidden = memory.interface_size, controller.hidden_size
        self.controller = controller
        self.memory = memory
        self.constraints = tuple(constraints)
        self.interface_weight = _matrix(interface_key, (interface, hidden))
        self.interface_bias = jnp.zeros(interface)
        self.output_weight = _matrix(output_key, (output_size, hidden))
        self.readout_weight = _matrix(readout_key, (output_size, memory.read_size))
        self.output_bias = jnp.zeros(output_size)
        self.input_size = input_size
        self.clip_value = clip_value
        self.training_lengths = None

    @property
    def output_size(self) -> int:
        return self.output_bias.shape[-1]

    @property
    def changes_state(self) -> bool:
        """Whether a constraint changes the cell state."""
        return any(
            constraint.changes_state and constraint.acts_on == "states"
            for constraint in self.constraints
        )

    @property
    def constrains_reads(self) -> bool:
        """Whether a constraint acts on the reads."""
        return any(constraint.acts_on == "reads" for constraint in self.constraints)

    @property
    def uses_key(self) -> bool:
        """Whether a constraint may be random in training."""
        return any(
            constraint.changes_state and constraint.is_random for constraint in self.constraints
        )

    def with_memory_size(self, size: int | Growing) -> DNC:
        """This model with another number of memory slots, or with a memory that grows.

        Args:
            size: a number of slots, or `Growing(start)`.
        """
        return with_fields(self, memory=self.memory.with_size(size))

    def initial_state(self, num_steps: int | None = None) -> DNCState:
        """The state of one sample before the first step.

        Args:
            num_steps: the steps that a growing memory must have room for.
        """
        dtype = self.interface_bias.dtype
        return DNCState(
            controller=self.controller.initial_state(),
            memory=self.memory.initial_state(dtype, num_steps),
            reads=jnp.zeros(self.memory.read_size, dtype),
        )

    def initial_states(self, batch: int, num_steps: int | None = None) -> DNCState:
        """The states of a batch of samples before the first step.

        Args:
            batch: the number of samples.
            num_steps: the steps that a growing memory must have room for.
        """
        states: DNCState = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (batch, *leaf.shape)),
            self.initial_state(num_steps),
        )
        return states

    def step(
        self, inputs: Float[Array, "inputs"], state: DNCState, key: Array | None = None
    ) -> tuple[Float[Array, "outputs"], DNCState, Internals]:
        """One step of one sample.

        Args:
            inputs: the inputs of the step.
            state: the state after the step before.
            key: for random constraints, in training only.

        Returns:
            The outputs, the new state, and the values that led to them.
        """
        step = self.controller(jnp.concatenate([inputs, state.reads]), state.controller)
        hidden = self._clip(step.hidden)
        controller, before = self._constrain(step, key)

        interface = self.interface_weight @ hidden + self.interface_bias  # xi
        memory, reads = self.memory(interface, state.memory)
        reads, reads_before = self._constrain_reads(reads, key)
        before |= reads_before

        outputs = self._clip(  # y, of the reads of this step; the controller sees them at the next
            self.output_weight @ hidden + self.readout_weight @ reads + self.output_bias
        )
        internals = Internals(
            hidden=hidden,
            cell_state=self.controller.cell_state(controller),
            uncompressed_cell_state=self.controller.cell_state(step.state),
            states_before=tuple(before[index] for index in range(len(before))),
            interface=self.memory.split(interface),
            memory=memory,
            reads=reads,
        )
        return outputs, DNCState(controller, memory, reads), internals

    def unroll(
        self,
        inputs: Float[AnyArray, "time batch inputs"],
        state: DNCState | None = None,
        *,
        internals: bool = False,
        key: Array | None = None,
        num_steps: Int[AnyArray, ""] | None = None,
    ) -> Unrolled:
        """Run a batch of sequences.

        Args:
            inputs: the network's inputs, all of one length.
            state: of a run that this one continues; by default memories are empty.
            internals: whether to return every step's gates, weights, usage, memory, link and cell
                states: time * batch * slots**2 numbers for the link alone.
            key: for random constraints, in training only.
            num_steps: the steps to compute, by default all; those after them are padding, whose
                outputs and cell states are 0. As it may be traced, one compiled program serves all
                lengths.
        """
        self.check_inputs(inputs)
        inputs = jnp.asarray(inputs)
        time, batch, _ = inputs.shape
        if state is not None:
            self.check_state(state, batch)
        start = state or self.initial_states(batch, time)
        keys = None if key is None else jax.random.split(key, time)

        # A gradient recomputes each step from the state before it: on a CPU that is faster than
        # to write what is inside a step, such as several arrays of slots * slots, and read it back.
        @partial(jax.checkpoint, prevent_cse=False)
        def compute(state: DNCState, at_step: Any) -> tuple[DNCState, Any]:
            _, inputs, key = at_step
            samples = None if key is None else jax.random.split(key, batch)
            outputs, state, inside = jax.vmap(self.step)(inputs, state, samples)
            kept = inside if internals else None
            reads = inside.reads if self.constrains_reads else None
            return state, (outputs, inside.cell_state, inside.states_before, kept, reads)

        def skip(state: DNCState, at_step: Any) -> tuple[DNCState, Any]:
            shapes = jax.eval_shape(compute, state, at_step)[1]
            return state, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

        def body(state: DNCState, at_step: Any) -> tuple[DNCState, Any]:
            if num_steps is None:
                return compute(state, at_step)
            return jax.lax.cond(at_step[0] < num_steps, compute, skip, state, at_step)

        end, results = jax.lax.scan(body, start, (jnp.arange(time), inputs, keys))
        outputs, cell_states, states_before, inside, reads = results
        outputs = self.memory.check_end(end.memory, outputs)
        return Unrolled(outputs, cell_states, states_before, inside, end, reads)

    def check_inputs(self, inputs: Any) -> None:
        """Refuse inputs that `unroll` cannot run.

        Args:
            inputs: should have the shape (time, batch, input channels) and the model's precision.
        """
        shape = tuple(getattr(inputs, "shape", ()))
        if len(shape) != 3 or shape[2] != self.input_size or min(shape) < 1:
            raise SettingError(
                "the shape of inputs", shape, f"(time, batch, {self.input_size}), none of them 0"
            )
        dtype, expected = inputs.dtype, self.interface_bias.dtype
        with suppress(TypeError):  # objects, text, foreign byte order
            dtype = jnp.result_type(inputs)
        if dtype != expected:
            raise SettingError("the dtype of inputs", str(dtype), f"{expected}, as in the model")

    def check_state(self, state: DNCState, batch: int) -> None:
        """Refuse a state of another model, batch size or memory size.

        Args:
            state: that `unroll` is to continue from.
            batch: the number of samples.
        """
        if isinstance(self.memory.size, Growing):
            raise SettingError("a model with a growing memory cannot continue from a state")
        fresh = jax.tree.leaves(jax.eval_shape(self.initial_state))
        needed = [(batch, *leaf.shape) for leaf in fresh]
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(state)]
        if shapes != needed:
            raise SettingError("the state", shapes, f"arrays of the shapes {needed}")

    def _constrain(
        self, step: ControllerStep, key: Array | None
    ) -> tuple[ControllerState, dict[int, Float[Array, "cell"]]]:
        """The controller state for the next step, and the cell state that reaches each constraint.

        Constraints are applied in their order, then the state is clipped.
        """
        state, before = step.state, {}
        cell = uncompressed = self.controller.cell_state(state)
        for index, constraint in enumerate(self.constraints):
            if constraint.acts_on == "reads":
                continue
            before[index] = cell
            own_key = None if key is None else jax.random.fold_in(key, index)
            shares_tanh = type(constraint) is Compression and cell is uncompressed
            if shares_tanh and step.squashed is not None:
                cell = step.squashed  # one tanh for h and c, as in the paper
            else:
                cell = constraint.carry(cell, own_key)
        if self.changes_state:
            state = self.controller.with_cell_state(state, cell)
        return jax.tree.map(self._clip, state), before

    def _constrain_reads(
        self, reads: Float[Array, "read_size"], key: Array | None
    ) -> tuple[Float[Array, "read_size"], dict[int, Float[Array, "read_size"]]]:
        """The reads as they are used, and those that reach each constraint on them."""
        before = {}
        for index, constraint in enumerate(self.constraints):
            if constraint.acts_on == "reads":
                before[index] = reads
                own_key = None if key is None else jax.random.fold_in(key, index)
                reads = constraint.carry(reads, own_key)
        return reads, before

    def _clip(self, values: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
        if self.clip_value is None:
            return values
        return jnp.clip(values, -self.clip_value, self.clip_value)


def _matrix(key: Array, shape: tuple[int, int]) -> Float[Array, "out in"]:
    """Initial weights; without a memory, interface and readout are empty."""
    return lecun_normal(key, shape) if min(shape) else jnp.zeros(shape)
