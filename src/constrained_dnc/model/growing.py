"""A memory that grows with its input: it gets new slots whenever too few are free.

It starts with the slots of training. Slots that do not exist yet have no effect, so an input that
fits is answered as with a fixed memory of that size. For trained models only: it has no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from constrained_dnc.errors import require_integer, require_number
from constrained_dnc.shapes import Array, Bool, Float, Int


@dataclass(frozen=True)
class Growing:
    """A growing memory: whenever less than `free_capacity` is free, slots are added to reach it."""

    start: int
    """Slots before the first step: those of training."""
    free_capacity: float
    """F: the smallest sum of 1 - usage over the slots at training lengths."""
    limit: int = 5000
    """The largest number of slots; an input that needs more is refused."""

    def __post_init__(self) -> None:
        require_integer("memory_size.start", self.start, 1)
        require_integer("memory_size.limit", self.limit, self.start)
        require_number("memory_size.free_capacity", self.free_capacity, 0.0, float(self.start))

    @property
    def refusal(self) -> str:
        """The error for an input that needs more than the limit."""
        return (
            f"an input needs more than {self.limit} slots of a growing memory; "
            "Growing(limit=...) raises the limit"
        )

    def capacity(self, steps: int) -> int:
        """The most slots that this many steps can need: each step fills at most one."""
        return min(self.limit, self.start + steps)


def slot_mask(slots: Int[Array, "*batch"], capacity: int) -> Bool[Array, "*batch slots"]:
    """Which of `capacity` slots exist."""
    return jnp.arange(capacity) < slots[..., None]


def slots_after_growth(
    slots: Int[Array, ""], usage: Float[Array, "slots"], growing: Growing
) -> Int[Array, ""]:
    """The number of slots for the coming write; it may exceed the limit."""
    exists = slot_mask(slots, usage.shape[-1])
    missing = growing.free_capacity - jnp.sum(jnp.where(exists, 1 - usage, 0))
    return slots + jnp.maximum(0, jnp.ceil(missing)).astype(slots.dtype)
