"""The memory of a neural Turing machine: look-up by content, then a shift (Graves et al. 2014)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from constrained_dnc.model.addressing import cosine_similarity, softmax_over_slots
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.memory import AbstractMemory, cut
from constrained_dnc.shapes import Array, Float

EMPTY = 1e-6
"""Every entry of the memory before the first step."""


class NTMState(eqx.Module):
    """Everything an NTM's memory carries from step to step."""

    memory: Float[Array, "*batch slots word"]  # M
    write_weights: Float[Array, "*batch slots"]
    read_weights: Float[Array, "*batch reads slots"]


class NTMInterface(eqx.Module):
    """The controller's commands to the memory, in the order of the interface vector.

    The last head writes, all others read.
    """

    keys: Float[Array, "*batch heads word"]  # k
    strengths: Float[Array, "*batch heads"]  # beta
    gates: Float[Array, "*batch heads"]  # g: 1 to look up by content, 0 to start where the head is
    shifts: Float[Array, "*batch heads 3"]  # s: one slot back, stay, one slot forward
    sharpness: Float[Array, "*batch heads"]  # gamma
    erase_vector: Float[Array, "*batch word"]  # e
    write_vector: Float[Array, "*batch word"]  # a


class NTMMemory(AbstractMemory):
    """One write head and `num_reads` read heads; each can move by one slot per step."""

    size: int | Growing = eqx.field(static=True)
    word_size: int = eqx.field(static=True)
    num_reads: int = eqx.field(static=True)

    @property
    def interface_size(self) -> int:
        """(R + 1) (W + 6) + 2W entries."""
        return sum(self._parts().values())

    @property
    def read_size(self) -> int:
        return self.num_reads * self.word_size

    def initial_state(self, dtype: DTypeLike, num_steps: int | None = None) -> NTMState:
        """A constant memory, and every head at the first slot."""
        first = jnp.zeros(self.size, dtype).at[0].set(1)
        return NTMState(
            memory=jnp.full((self.size, self.word_size), EMPTY, dtype),
            write_weights=first,
            read_weights=jnp.tile(first, (self.num_reads, 1)),
        )

    def __call__(
        self, vector: Float[Array, "interface"], state: NTMState
    ) -> tuple[NTMState, Float[Array, "read_size"]]:
        """Write to the memory, then read from it."""
        xi = self.split(vector)
        reading, writing = slice(None, -1), slice(-1, None)
        (write_weights,) = _head_weights(state.memory, state.write_weights[None], xi, writing)
        write = write_weights[:, None]
        memory = state.memory * (1 - write * xi.erase_vector) + write * xi.write_vector
        read_weights = _head_weights(memory, state.read_weights, xi, reading)
        return NTMState(memory, write_weights, read_weights), (read_weights @ memory).ravel()

    def split(self, vector: Float[Array, "interface"]) -> NTMInterface:
        """Cut the interface vector into its parts and bring each into its range."""
        parts, heads = cut(vector, self._parts()), self.num_reads + 1
        return NTMInterface(
            keys=parts["keys"].reshape(heads, self.word_size),
            strengths=jax.nn.softplus(parts["strengths"]),
            gates=jax.nn.sigmoid(parts["gates"]),
            shifts=jax.nn.softmax(parts["shifts"].reshape(heads, 3), axis=-1),
            sharpness=1 + jax.nn.softplus(parts["sharpness"]),
            erase_vector=jax.nn.sigmoid(parts["erase_vector"]),
            write_vector=parts["write_vector"],
        )

    def weights(self, state: NTMState) -> tuple[Any, Any]:
        return state.read_weights, state.write_weights

    def _parts(self) -> dict[str, int]:
        """The parts of the interface vector in their order, each with its number of entries."""
        heads, word = self.num_reads + 1, self.word_size
        return {
            "keys": heads * word,
            "strengths": heads,
            "gates": heads,
            "shifts": heads * 3,
            "sharpness": heads,
            "erase_vector": word,
            "write_vector": word,
        }


def _head_weights(
    memory: Float[Array, "slots word"],
    previous: Float[Array, "heads slots"],
    xi: NTMInterface,
    heads: slice,
) -> Float[Array, "heads slots"]:
    """w: by content or where the head was, shifted, then sharpened (equations 5 to 9)."""
    similarity = cosine_similarity(xi.keys[heads], memory)
    content = softmax_over_slots(xi.strengths[heads, None] * similarity)
    gate = xi.gates[heads, None]
    gated = gate * content + (1 - gate) * previous
    back, stay, forward = jnp.moveaxis(xi.shifts[heads], -1, 0)[..., None]
    shifted = back * jnp.roll(gated, -1, -1) + stay * gated + forward * jnp.roll(gated, 1, -1)
    return sharpen(shifted, xi.sharpness[heads])


def sharpen(
    weights: Float[Array, "heads slots"], sharpness: Float[Array, "heads"]
) -> Float[Array, "heads slots"]:
    """w^gamma / sum w^gamma, relative to the largest weight: small powers would underflow."""
    largest = jax.lax.stop_gradient(jnp.max(weights, axis=-1, keepdims=True))
    powers = (weights / largest) ** sharpness[:, None]
    return powers / jnp.sum(powers, axis=-1, keepdims=True)
