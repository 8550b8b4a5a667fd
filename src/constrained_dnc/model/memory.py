"""One access to the external memory: write, then read.

`access` is the memory step of the paper; everything is for one sample.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from constrained_dnc.model.addressing import (
    allocation_weights,
    content_weights,
    content_weights_of_used_slots,
    link_after_write,
    precedence_after_write,
    usage_after_step,
    usage_after_write,
)
from constrained_dnc.model.growing import Growing, slot_mask, slots_after_growth
from constrained_dnc.shapes import Array, Bool, Float, Int


class MemoryState(eqx.Module):
    """Everything the memory carries from step to step."""

    memory: Float[Array, "*batch slots word"]  # M
    usage: Float[Array, "*batch slots"]  # u
    link: Float[Array, "*batch slots slots"]  # L
    precedence: Float[Array, "*batch slots"]  # p
    write_weights: Float[Array, "*batch slots"]  # w^w
    read_weights: Float[Array, "*batch reads slots"]  # w^r
    slots: Int[Array, "*batch"] | None = None  # that exist, of a growing memory


class Interface(eqx.Module):
    """What the controller asks of the memory, in the order of the interface vector."""

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


def interface_size(num_reads: int, word_size: int) -> int:
    """Entries of the interface vector: W*R + 3W + 5R + 3."""
    return sum(interface_parts(num_reads, word_size).values())


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


def split_interface(vector: Float[Array, "interface"], num_reads: int, word_size: int) -> Interface:
    """Cut the interface vector into its parts and bring each into its range."""
    sizes = interface_parts(num_reads, word_size)
    ends = list(accumulate(sizes.values()))
    parts = dict(zip(sizes, jnp.split(vector, ends[:-1]), strict=True))
    return Interface(
        read_keys=parts["read_keys"].reshape(num_reads, word_size),
        read_strengths=jax.nn.softplus(parts["read_strengths"]),
        write_key=parts["write_key"],
        write_strength=jax.nn.softplus(parts["write_strength"][0]),
        erase_vector=jax.nn.sigmoid(parts["erase_vector"]),
        write_vector=parts["write_vector"],
        free_gates=jax.nn.sigmoid(parts["free_gates"]),
        allocation_gate=jax.nn.sigmoid(parts["allocation_gate"][0]),
        write_gate=jax.nn.sigmoid(parts["write_gate"][0]),
        read_modes=jax.nn.softmax(parts["read_modes"].reshape(num_reads, 3), axis=-1),
    )


def empty_memory(
    memory_size: int, word_size: int, num_reads: int, dtype: DTypeLike, slots: int | None = None
) -> MemoryState:
    """The memory before the first step: all zero; of a growing one, `slots` exist."""
    zeros = jnp.zeros(memory_size, dtype)
    return MemoryState(
        memory=jnp.zeros((memory_size, word_size), dtype),
        usage=zeros,
        link=jnp.zeros((memory_size, memory_size), dtype),
        precedence=zeros,
        write_weights=zeros,
        read_weights=jnp.zeros((num_reads, memory_size), dtype),
        slots=None if slots is None else jnp.asarray(slots, jnp.int32),
    )


def access(
    state: MemoryState,
    interface: Interface,
    lookup: str = "every-slot",
    growing: Growing | None = None,
) -> tuple[MemoryState, Float[Array, "reads word"]]:
    """Write to the memory, then read from it: the new state and one read vector per head."""
    usage = usage_after_step(
        state.usage, state.write_weights, state.read_weights, interface.free_gates
    )
    slots, exists = None, None
    if growing is not None:
        assert state.slots is not None
        slots = slots_after_growth(state.slots, usage, growing)
        exists = slot_mask(slots, usage.shape[-1])
    find = partial(_find, lookup=lookup, exists=exists)
    found = find(state.memory, usage, interface.write_key[None, :], interface.write_strength[None])
    write_weights = _write_weights(usage, found[0], interface, exists)
    memory = _write(state.memory, write_weights, interface)
    link = link_after_write(state.link, state.precedence, write_weights)
    precedence = precedence_after_write(state.precedence, write_weights)
    used = usage_after_write(usage, write_weights)
    found = find(memory, used, interface.read_keys, interface.read_strengths)
    read_weights = _read_weights(found, link, state.read_weights, interface)
    reads = read_weights @ memory  # r = M^T w^r
    return MemoryState(memory, usage, link, precedence, write_weights, read_weights, slots), reads


def _find(
    memory: Float[Array, "slots word"],
    usage: Float[Array, "slots"],
    keys: Float[Array, "heads word"],
    strengths: Float[Array, "heads"],
    lookup: str,
    exists: Bool[Array, "slots"] | None,
) -> Float[Array, "heads slots"]:
    """c: look-up by content in every slot that exists or in those that are used."""
    if lookup == "used-slots":
        return content_weights_of_used_slots(memory, keys, strengths, usage)
    return content_weights(memory, keys, strengths, exists)


def _write_weights(
    usage: Float[Array, "slots"],
    content: Float[Array, "slots"],
    interface: Interface,
    exists: Bool[Array, "slots"] | None,
) -> Float[Array, "slots"]:
    """w^w = g^w (g^a a + (1 - g^a) c^w), looked up in the memory before the write."""
    gate = interface.allocation_gate
    # a slot that is not there has nothing to allocate, like one that is fully used
    allocation = allocation_weights(usage if exists is None else jnp.where(exists, usage, 1))
    return interface.write_gate * (gate * allocation + (1 - gate) * content)


def _write(
    memory: Float[Array, "slots word"],
    write_weights: Float[Array, "slots"],
    interface: Interface,
) -> Float[Array, "slots word"]:
    """M = M_prev * (1 - w e^T) + w v^T."""
    write = write_weights[:, None]
    return memory * (1 - write * interface.erase_vector) + write * interface.write_vector


def _read_weights(
    content: Float[Array, "reads slots"],
    link: Float[Array, "slots slots"],
    previous: Float[Array, "reads slots"],
    interface: Interface,
) -> Float[Array, "reads slots"]:
    """w^r: a mixture of one step back, one step forward and look-up by content."""
    backward = previous @ link  # L^T w
    forward = previous @ link.T  # L w
    mode_b, mode_f, mode_c = jnp.moveaxis(interface.read_modes, -1, 0)[..., None]
    return mode_b * backward + mode_f * forward + mode_c * content
