"""The differentiable neural computer: controller + memory + output. Start reading here."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from constrained_dnc.errors import SettingError, require_integer
from constrained_dnc.model.controllers import AbstractController, ControllerState, lecun_normal
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.memory import (
    Interface,
    MemoryState,
    access,
    empty_memory,
    interface_size,
    split_interface,
)
from constrained_dnc.shapes import AnyArray, Array, Float


class DNCState(eqx.Module):
    """Everything a DNC carries from step to step."""

    controller: ControllerState
    memory: MemoryState
    reads: Float[Array, "*batch reads word"]  # r


class Internals(eqx.Module):
    """What happened inside, at one step or, from `unroll`, at all of them (time, batch first)."""

    hidden: Float[Array, "*steps hidden"]
    cell_state: Float[Array, "*steps cell"]  # carried: after compression and clipping
    uncompressed_cell_state: Float[Array, "*steps cell"]
    interface: Interface
    memory: MemoryState
    reads: Float[Array, "*steps reads word"]


class Unrolled(eqx.Module):
    """The result of running a DNC over a batch of sequences."""

    outputs: Float[Array, "time batch outputs"]
    cell_states: Float[Array, "time batch cell"]
    internals: Internals | None  # of every step, when asked for
    state: DNCState | None = None  # after the last step; the backends leave it out


class DNC(eqx.Module):
    """A controller with an external memory.

    The number of memory slots is an argument of a run, not a property of the weights: a trained
    DNC runs with any `memory_size`. Unless told otherwise, that is the one it was built for.
    """

    controller: AbstractController
    interface_weight: Float[Array, "interface hidden"]  # W_xi
    interface_bias: Float[Array, "interface"]
    output_weight: Float[Array, "outputs hidden"]  # W_y
    readout_weight: Float[Array, "outputs readout"]  # W_r
    output_bias: Float[Array, "outputs"]
    input_size: int = eqx.field(static=True)
    word_size: int = eqx.field(static=True)
    num_reads: int = eqx.field(static=True)
    memory_size: int = eqx.field(static=True)
    clip_value: float | None = eqx.field(static=True)
    lookup: str = eqx.field(static=True)

    def __init__(
        self,
        controller: AbstractController,
        *,
        input_size: int,
        output_size: int,
        word_size: int,
        num_reads: int,
        memory_size: int,
        clip_value: float | None,
        lookup: str,
        key: Array,
    ):
        """Wrap `controller`, which must take `input_size + num_reads * word_size` inputs."""
        interface_key, output_key, readout_key = jax.random.split(key, 3)
        num_interface = interface_size(num_reads, word_size)
        self.controller = controller
        self.interface_weight = lecun_normal(interface_key, (num_interface, controller.hidden_size))
        self.interface_bias = jnp.zeros(num_interface)
        self.output_weight = lecun_normal(output_key, (output_size, controller.hidden_size))
        self.readout_weight = lecun_normal(readout_key, (output_size, num_reads * word_size))
        self.output_bias = jnp.zeros(output_size)
        self.input_size = input_size
        self.word_size = word_size
        self.num_reads = num_reads
        self.memory_size = memory_size
        self.clip_value = clip_value
        self.lookup = lookup

    @property
    def output_size(self) -> int:
        return self.output_bias.shape[-1]

    def initial_state(
        self, memory_size: int | None = None, growing: Growing | None = None
    ) -> DNCState:
        """The state of one sample before its first step; a growing one has room for so many."""
        dtype = self.interface_bias.dtype
        size = self.memory_size if memory_size is None else memory_size
        slots = None if growing is None else growing.start
        return DNCState(
            controller=self.controller.initial_state(),
            memory=empty_memory(size, self.word_size, self.num_reads, dtype, slots),
            reads=jnp.zeros((self.num_reads, self.word_size), dtype),
        )

    def initial_states(
        self, batch: int, memory_size: int | None = None, growing: Growing | None = None
    ) -> DNCState:
        """The same for every sample of a batch."""
        states: DNCState = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (batch, *leaf.shape)),
            self.initial_state(memory_size, growing),
        )
        return states

    def step(
        self, inputs: Float[Array, "inputs"], state: DNCState, growing: Growing | None = None
    ) -> tuple[Float[Array, "outputs"], DNCState, Internals]:
        """One step of one sample."""
        chi = jnp.concatenate([inputs, state.reads.ravel()])
        controller = self.controller(chi, state.controller)
        hidden = self._clip(controller.hidden)
        carried = jax.tree.map(self._clip, controller.state)

        interface = split_interface(
            self.interface_weight @ hidden + self.interface_bias, self.num_reads, self.word_size
        )
        memory, reads = access(state.memory, interface, self.lookup, growing)
        outputs = self._clip(
            self.output_weight @ hidden + self.readout_weight @ reads.ravel() + self.output_bias
        )
        internals = Internals(
            hidden=hidden,
            cell_state=self.controller.cell_state(carried),
            uncompressed_cell_state=controller.uncompressed,
            interface=interface,
            memory=memory,
            reads=reads,
        )
        return outputs, DNCState(carried, memory, reads), internals

    def unroll(
        self,
        inputs: Float[AnyArray, "time batch inputs"],
        memory_size: int | Growing | None = None,
        *,
        state: DNCState | None = None,
        internals: bool = False,
    ) -> Unrolled:
        """Run a batch of sequences from empty memories, or on from the `state` of another run.

        A growing memory has room for what the steps can need; `MemoryState.slots` says how many
        slots each sample has.

        With `internals` every step's gates, weights, usage, memory, link and cell states come
        back too: time * batch * memory_size**2 numbers for the link alone.
        """
        growing = memory_size if isinstance(memory_size, Growing) else None
        if state is not None:
            self._check_state(state, inputs, memory_size)
            size = state.memory.usage.shape[-1]
        elif isinstance(memory_size, Growing):
            size = memory_size.capacity(len(inputs))
        else:
            size = self.memory_size if memory_size is None else memory_size
        self.check_run(inputs, size)
        inputs = jnp.asarray(inputs)
        start = state or self.initial_states(inputs.shape[1], size, growing)

        def body(state: DNCState, inputs: Float[Array, "batch inputs"]) -> tuple[DNCState, Any]:
            step = partial(self.step, growing=growing)
            outputs, state, inside = jax.vmap(step)(inputs, state)
            return state, (outputs, inside.cell_state, inside if internals else None)

        end, (outputs, cell_states, inside) = jax.lax.scan(body, start, inputs)
        if growing is not None:
            assert end.memory.slots is not None
            outputs = eqx.error_if(outputs, end.memory.slots > size, growing.refusal)
        return Unrolled(outputs, cell_states, inside, end)

    def check_run(self, inputs: Any, memory_size: Any) -> None:
        """Refuse inputs and memory sizes that `unroll` cannot run."""
        require_integer("memory_size", memory_size, 1)
        shape = tuple(getattr(inputs, "shape", ()))
        if len(shape) != 3 or shape[2] != self.input_size or min(shape) < 1:
            raise SettingError(
                "the shape of inputs", shape, f"(time, batch, {self.input_size}), none of them 0"
            )
        dtype, expected = jnp.result_type(inputs), self.interface_bias.dtype
        if dtype != expected:
            raise SettingError("the dtype of inputs", str(dtype), f"{expected}, as the parameters")

    def _check_state(self, state: DNCState, inputs: Any, memory_size: int | Growing | None) -> None:
        """Refuse a state that is not of this model, this batch and this memory size."""
        slots = state.memory.usage.shape[-1]
        if isinstance(memory_size, Growing):
            raise SettingError(
                "memory_size", memory_size, "a number of slots when a state is given"
            )
        if memory_size not in (None, slots):
            raise SettingError("memory_size", memory_size, f"None or {slots}, as the state has it")
        batch = tuple(jnp.shape(inputs)[1:2])
        fresh = jax.tree.leaves(jax.eval_shape(lambda: self.initial_state(slots)))
        needed = [(*batch, *leaf.shape) for leaf in fresh]
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(state)]
        if shapes != needed:
            accepted = f"arrays of the shapes {needed}, as this model has for these inputs"
            raise SettingError("the state", shapes, accepted)

    def _clip(self, values: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
        if self.clip_value is None:
            return values
        return jnp.clip(values, -self.clip_value, self.clip_value)
