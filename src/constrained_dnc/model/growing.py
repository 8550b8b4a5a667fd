"""A memory that grows with its input: at least half of its slots are empty, however many it needs.

It starts with the slots of training. Slots that do not exist yet have no effect, so an input that
fills no more than half of them is answered as with a fixed memory of that size. For trained models
only: it has no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from constrained_dnc.errors import require_integer
from constrained_dnc.shapes import Array, Bool, Float, Int

IN_USE = 0.05
"""A slot with more usage is in use. Scores are the same from 0.01 to 0.1 (docs/memory-size.md)."""


@dataclass(frozen=True)
class Growing:
    """A growing memory: before each write, it gets as many slots as it takes to be half empty."""

    start: int
    """Slots before the first step: those of training."""
    limit: int = 5000
    """The largest number of slots; an input that needs more is refused."""

    def __post_init__(self) -> None:
        require_integer("memory_size.start", self.start, 1)
        require_integer("memory_size.limit", self.limit, self.start)

    @property
    def refusal(self) -> str:
        """The error for an input that needs more than the limit."""
        return (
            f"an input needs more than {self.limit} slots of a growing memory; "
            "Growing(limit=...) raises the limit"
        )

    def capacity(self, steps: int) -> int:
        """The most slots that an input can need: each write takes at most one into use.

        Args:
            steps: of the input.
        """
        return min(self.limit, max(self.start, 2 * steps))


def growing_memory(training_slots: int) -> Growing:
    """The growing memory of a model trained with that many slots."""
    return Growing(training_slots, limit=max(Growing.limit, 2 * training_slots))


def slot_mask(slots: Int[Array, "*batch"], capacity: int) -> Bool[Array, "*batch slots"]:
    """Which of `capacity` slots exist."""
    return jnp.arange(capacity) < slots[..., None]


def slots_after_growth(
    slots: Int[Array, ""], usage: Float[Array, "slots"], writes: Int[Array, ""]
) -> Int[Array, ""]:
    """The number of slots for the coming write; it may exceed the limit.

    Soft writes leave a little usage everywhere, so that no more slots count as in use than there
    were writes.
    """
    in_use = jnp.minimum(jnp.sum(usage > IN_USE), writes)
    return jnp.maximum(slots, 2 * in_use).astype(slots.dtype)
