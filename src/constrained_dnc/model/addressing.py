"""How the memory is addressed: one pure function per equation, for one sample at one step.

The rules are those of Graves et al. 2016 in the form of DeepMind's public implementation;
`docs/equations.md` maps symbols to functions.
"""

from __future__ import annotations

from functools import reduce
from operator import mul

import jax
import jax.numpy as jnp

from constrained_dnc.shapes import Array, Bool, Float

EPSILON = 1e-6
"""Keeps norms and usages away from zero, where their gradients are not finite."""

LARGEST_EXPONENT = 80.0
"""Bounds the exponent of an unused slot that resembles a key: exp stays finite in float32."""

LARGEST_COMPARED_MEMORY = 160
"""Up to this many slots, comparing all pairs of usages beats a sort on a CPU. Measured for XLA; for
the fused kernel it is 128."""


def cosine_similarity(
    keys: Float[Array, "heads word"], memory: Float[Array, "slots word"]
) -> Float[Array, "heads slots"]:
    """Cosine of the angle between every key and every slot; 0 for an empty slot."""
    key_norms = jnp.sqrt(jnp.sum(keys**2, axis=-1) + EPSILON)
    slot_norms = jnp.sqrt(jnp.sum(memory**2, axis=-1) + EPSILON)
    return keys @ memory.T / (key_norms[:, None] * slot_norms + EPSILON)


def content_weights(
    memory: Float[Array, "slots word"],
    keys: Float[Array, "heads word"],
    strengths: Float[Array, "heads"],
    usage: Float[Array, "slots"],
    exists: Bool[Array, "slots"] | None = None,
) -> Float[Array, "heads slots"]:
    """C(M, k, beta): where the memory resembles each key, over all slots that exist."""
    scores = strengths[:, None] * cosine_similarity(keys, memory)
    if exists is not None:
        scores = jnp.where(exists, scores, -jnp.inf)
    return softmax_over_slots(scores)


def content_weights_of_used_slots(
    memory: Float[Array, "slots word"],
    keys: Float[Array, "heads word"],
    strengths: Float[Array, "heads"],
    usage: Float[Array, "slots"],
    exists: Bool[Array, "slots"] | None = None,
) -> Float[Array, "heads slots"]:
    """C(M, k, beta, u) = u_i exp(beta s_i) / (1 + sum_j u_j exp(beta s_j)), s the similarity.

    The 1 stands for a slot that holds nothing. Slots that are unused or do not exist yet get no
    weight and take none from others.
    """
    scores = strengths[:, None] * cosine_similarity(keys, memory)
    usage = jnp.where(usage < 0, 0, usage)  # rounding errors
    of_used = jnp.where(usage > 0, scores, 0)
    peak = jax.lax.stop_gradient(jnp.max(of_used, axis=-1, keepdims=True, initial=0))
    weights = usage * jnp.exp(jnp.minimum(scores - peak, LARGEST_EXPONENT))
    return weights / (jnp.exp(-peak) + jnp.sum(weights, axis=-1, keepdims=True))


@jax.custom_jvp
def softmax_over_slots(scores: Float[Array, "heads slots"]) -> Float[Array, "heads slots"]:
    """Softmax with an accurate gradient where all slots look alike, as in an empty memory.

    The incoming gradient is then nearly the same for all slots and cancels. The tangent below
    sums to zero over the slots; subtracting its mean changes nothing, but transposed it centres
    the incoming gradient first, and float32 loses two digits fewer.
    """
    return jax.nn.softmax(scores, axis=-1)


@softmax_over_slots.defjvp
def _softmax_over_slots_jvp(
    primals: tuple[Float[Array, "heads slots"]], tangents: tuple[Float[Array, "heads slots"]]
) -> tuple[Float[Array, "heads slots"], Float[Array, "heads slots"]]:
    weights, (tangent,) = softmax_over_slots(*primals), tangents
    tangent = weights * (tangent - jnp.sum(weights * tangent, axis=-1, keepdims=True))
    return weights, tangent - jnp.mean(tangent, axis=-1, keepdims=True)


def usage_after_write(
    usage: Float[Array, "slots"], write_weights: Float[Array, "slots"]
) -> Float[Array, "slots"]:
    """u + (1 - u) w: raised where a step wrote.

    As in DeepMind's implementation no gradient flows through the write weights.
    """
    written = jax.lax.stop_gradient(write_weights)
    return usage + (1 - usage) * written


def usage_after_step(
    usage: Float[Array, "slots"],
    write_weights: Float[Array, "slots"],
    read_weights: Float[Array, "reads slots"],
    free_gates: Float[Array, "reads"],
) -> Float[Array, "slots"]:
    """u: raised where the previous step wrote, lowered where a read head frees what it read."""
    usage = usage_after_write(usage, write_weights)
    retention = reduce(mul, 1 - free_gates[:, None] * read_weights)  # psi, a product over heads
    return usage * retention


def allocation_weights(
    usage: Float[Array, "slots"], exists: Bool[Array, "slots"] | None = None
) -> Float[Array, "slots"]:
    """a: the least used slots first; ties go to the lower index.

    With u' = eps + (1 - eps) u, the weight of a slot is 1 - u' times the product of u' over all
    slots before it. The product is taken in the log domain (u' is never zero), so its gradient
    needs neither a division by a usage nor a scan. A slot that does not exist counts as fully used.
    """
    if exists is not None:
        usage = jnp.where(exists, usage, 1)
    used = EPSILON + (1 - EPSILON) * usage
    if usage.shape[0] <= LARGEST_COMPARED_MEMORY:
        log_before = _is_before(used).astype(used.dtype) @ jnp.log(used)
        return (1 - used) * jnp.exp(log_before)
    order = jnp.argsort(jax.lax.stop_gradient(used), stable=True)
    ascending = used[order]
    log_before = jnp.cumsum(jnp.log(ascending)[:-1])
    weights = (1 - ascending) * jnp.exp(
        jnp.concatenate([jnp.zeros_like(ascending[:1]), log_before])
    )
    return jnp.zeros_like(used).at[order].set(weights, unique_indices=True)


def one_hot(weights: Float[Array, "slots"]) -> Float[Array, "slots"]:
    """All weight on the slot that has the most; ties go to the lower index."""
    largest = jnp.arange(weights.shape[0]) == jnp.argmax(weights)
    return jnp.where(largest, jnp.sum(weights), 0)


def _is_before(used: Float[Array, "slots"]) -> Bool[Array, "slots slots"]:
    """Entry (i, j): slot j comes before slot i in ascending order of usage."""
    index = jnp.arange(used.shape[0])
    earlier = index[None, :] < index[:, None]
    return (used[None, :] < used[:, None]) | ((used[None, :] == used[:, None]) & earlier)


def link_after_write(
    link: Float[Array, "slots slots"],
    precedence: Float[Array, "slots"],
    write_weights: Float[Array, "slots"],
) -> Float[Array, "slots slots"]:
    """L: entry (i, j) is the degree to which slot i was written right after slot j."""
    write_i, write_j = write_weights[:, None], write_weights[None, :]
    link = (1 - write_i - write_j) * link + write_i * precedence[None, :]
    return jnp.where(jnp.eye(link.shape[0], dtype=bool), 0, link)


def precedence_after_write(
    precedence: Float[Array, "slots"], write_weights: Float[Array, "slots"]
) -> Float[Array, "slots"]:
    """p: the degree to which each slot was the last one written."""
    return (1 - jnp.sum(write_weights)) * precedence + write_weights
