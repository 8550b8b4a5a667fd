"""The memory of a DNC: one step writes, then reads. Everything is for one sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from constrained_dnc.errors import require_integer
from constrained_dnc.model.addressing import (
    allocation_weights,
    link_after_write,
    one_hot,
    precedence_after_write,
    usage_after_step,
    usage_after_write,
)
from constrained_dnc.model.growing import Growing, slot_mask, slots_after_growth
from constrained_dnc.model.memory import AbstractMemory, cut
from constrained_dnc.parts import LOOKUP, find_part, require_kind
from constrained_dnc.shapes import Array, Float, Int

Lookup: TypeAlias = Callable[..., Float[Array, "heads slots"]]
"""Weights over the slots from memory, keys, strengths, usage, and which slots exist (None: all), as
`addressing.content_weights` computes them."""

WRITES = ("soft", "one-hot", "one-hot-allocation")
"""How sharp writes are: as computed, all weight on one slot, or all allocation on one slot."""


def _find_lookup(lookup: str | Lookup) -> Lookup:
    """A look-up by its name or import path."""
    if callable(lookup):
        return lookup
    require_kind(LOOKUP, lookup, "file.py:function")
    return find_part(LOOKUP, lookup)


class MemoryState(eqx.Module):
    """Everything the DNC's memory carries from step to step."""

    memory: Float[Array, "*batch slots word"]  # M
    usage: Float[Array, "*batch slots"]  # u
    link: Float[Array, "*batch slots slots"]  # L
    precedence: Float[Array, "*batch slots"]  # p
    write_weights: Float[Array, "*batch slots"]  # w^w
    read_weights: Float[Array, "*batch reads slots"]  # w^r
    slots: Int[Array, "*batch"] | None = None  # that exist, in a growing memory
    writes: Int[Array, "*batch"] | None = None  # so far, to a growing memory


class Interface(eqx.Module):
    """The controller's commands to the memory, in the order of the interface vector."""

    read_keys: Float[Array, "*batch reads word"]
    read_strengths: Float[Array, "*batch reads"]
    write_key: Float[Array, "*batch word"]
    write_strength: Float[Array, "*batch"]
    erase_vector: Float[Array, "*batch word"]
    write_vector: Float[Array, "*batch word"]
    free_gates: Float[Array, "*batch reads"]
    allocation_gate: Float[Array, "*batch"]
    write_gate: Float[Array, "*batch"]
    read_modes: Float[Array, "*batch reads 3"]  # backward, forward, content


class DNCMemory(AbstractMemory):
    """The memory of Graves et al. 2016, of a fixed size or growing."""

    size: int | Growing = eqx.field(static=True)
    word_size: int = eqx.field(static=True)
    num_reads: int = eqx.field(static=True)
    read_lookup: Lookup = eqx.field(static=True)
    write_lookup: Lookup = eqx.field(static=True)
    writes: str = eqx.field(static=True, default="soft")  # one of WRITES; one-hot has no gradient

    def __init__(
        self,
        size: int | Growing,
        word_size: int,
        num_reads: int,
        lookup: str | Lookup = "every-slot",
        *,
        read_lookup: str | Lookup | None = None,
        write_lookup: str | Lookup | None = None,
    ):
        """`lookup` is for reads and writes; the other two replace it for one of them."""
        self.size, self.word_size, self.num_reads = size, word_size, num_reads
        self.read_lookup = _find_lookup(read_lookup or lookup)
        self.write_lookup = _find_lookup(write_lookup or lookup)

    def __check_init__(self) -> None:
        if not isinstance(self.size, Growing):
            require_integer("memory_size", self.size, 1)

    @property
    def can_grow(self) -> bool:
        return True

    @property
    def interface_size(self) -> int:
        """W*R + 3W + 5R + 3 entries."""
        return sum(interface_parts(self.num_reads, self.word_size).values())

    @property
    def read_size(self) -> int:
        return self.num_reads * self.word_size

    def initial_state(self, dtype: DTypeLike, num_steps: int | None = None) -> MemoryState:
        """An empty memory: all zero."""
        size, slots, writes = self.size, None, None
        if isinstance(size, Growing):
            slots, writes = jnp.asarray(size.start, jnp.int32), jnp.asarray(0, jnp.int32)
            size = size.limit if num_steps is None else size.capacity(num_steps)
        zeros = jnp.zeros(size, dtype)
        return MemoryState(
            memory=jnp.zeros((size, self.word_size), dtype),
            usage=zeros,
            link=jnp.zeros((size, size), dtype),
            precedence=zeros,
            write_weights=zeros,
            read_weights=jnp.zeros((self.num_reads, size), dtype),
            slots=slots,
            writes=writes,
        )

    def __call__(
        self, vector: Float[Array, "interface"], state: MemoryState
    ) -> tuple[MemoryState, Float[Array, "read_size"]]:
        """Write to the memory, then read from it."""
        xi = self.split(vector)
        usage = usage_after_step(
            state.usage, state.write_weights, state.read_weights, xi.free_gates
        )
        slots = writes = exists = None  # of a fixed size: all slots exist
        if state.slots is not None and state.writes is not None:
            slots = slots_after_growth(state.slots, usage, state.writes)
            writes = state.writes + 1
            exists = slot_mask(slots, usage.shape[-1])

        keys, strengths = xi.write_key[None, :], xi.write_strength[None]
        (content,) = self.write_lookup(state.memory, keys, strengths, usage, exists)
        allocation = allocation_weights(usage, exists)
        if self.writes == "one-hot-allocation":
            allocation = one_hot(allocation)
        write_weights = _write_weights(allocation, content, xi)
        if self.writes == "one-hot":
            write_weights = one_hot(write_weights)
        memory = _write(state.memory, write_weights, xi)

        link = link_after_write(state.link, state.precedence, write_weights)
        precedence = precedence_after_write(state.precedence, write_weights)
        used = usage_after_write(usage, write_weights)
        content = self.read_lookup(memory, xi.read_keys, xi.read_strengths, used, exists)
        read_weights = _read_weights(content, link, state.read_weights, xi)
        reads = read_weights @ memory  # r = M^T w^r
        return (
            MemoryState(
                memory, usage, link, precedence, write_weights, read_weights, slots, writes
            ),
            reads.ravel(),
        )

    def split(self, vector: Float[Array, "interface"]) -> Interface:
        """Cut the interface vector into its parts and bring each into its range."""
        reads, word = self.num_reads, self.word_size
        parts = cut(vector, interface_parts(reads, word))
        return Interface(
            read_keys=parts["read_keys"].reshape(reads, word),
            read_strengths=jax.nn.softplus(parts["read_strengths"]),
            write_key=parts["write_key"],
            write_strength=jax.nn.softplus(parts["write_strength"][0]),
            erase_vector=jax.nn.sigmoid(parts["erase_vector"]),
            write_vector=parts["write_vector"],
            free_gates=jax.nn.sigmoid(parts["free_gates"]),
            allocation_gate=jax.nn.sigmoid(parts["allocation_gate"][0]),
            write_gate=jax.nn.sigmoid(parts["write_gate"][0]),
            read_modes=jax.nn.softmax(parts["read_modes"].reshape(reads, 3), axis=-1),
        )

    def weights(self, state: MemoryState) -> tuple[Any, Any]:
        return state.read_weights, state.write_weights

    def check_end(
        self, state: MemoryState, outputs: Float[Array, "time batch outputs"]
    ) -> Float[Array, "time batch outputs"]:
        """The outputs, or an error if the memory would have grown beyond its limit."""
        if not isinstance(self.size, Growing):
            return outputs
        assert state.slots is not None
        return eqx.error_if(outputs, state.slots > state.usage.shape[-1], self.size.refusal)


def interface_parts(num_reads: int, word_size: int) -> dict[str, int]:
    """The parts of the interface vector in their order, each with its number of entries."""
    return {
        "read_keys": num_reads * word_size,
        "read_strengths": num_reads,
        "write_key": word_size,
        "write_strength": 1,
        "erase_vector": word_size,
        "write_vector": word_size,
        "free_gates": num_reads,
        "allocation_gate": 1,
        "write_gate": 1,
        "read_modes": num_reads * 3,
    }


def _write_weights(
    allocation: Float[Array, "slots"], content: Float[Array, "slots"], xi: Interface
) -> Float[Array, "slots"]:
    """w^w = g^w (g^a a + (1 - g^a) c^w)."""
    gate = xi.allocation_gate
    return xi.write_gate * (gate * allocation + (1 - gate) * content)


def _write(
    memory: Float[Array, "slots word"], write_weights: Float[Array, "slots"], xi: Interface
) -> Float[Array, "slots word"]:
    """M = M_prev * (1 - w e^T) + w v^T."""
    write = write_weights[:, None]
    return memory * (1 - write * xi.erase_vector) + write * xi.write_vector


def _read_weights(
    content: Float[Array, "reads slots"],
    link: Float[Array, "slots slots"],
    previous: Float[Array, "reads slots"],
    xi: Interface,
) -> Float[Array, "reads slots"]:
    """w^r: a mixture of one step back, one step forward and look-up by content."""
    backward = previous @ link  # L^T w
    forward = previous @ link.T  # L w
    mode_b, mode_f, mode_c = jnp.moveaxis(xi.read_modes, -1, 0)[..., None]
    return mode_b * backward + mode_f * forward + mode_c * content
