"""A memory that grows with its input: new slots whenever little of what is there is free.

It starts with the slots of training. Slots that are not there yet take part in nothing, so an
input that fits is answered as with a memory of that size. For trained models; nothing is learnt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp

from constrained_dnc.errors import SettingError, require_integer
from constrained_dnc.shapes import Array, Bool, Float, Int


@dataclass(frozen=True)
class Growing:
    """How a memory grows: below `free_capacity`, the missing part of it is added as slots."""

    start: int
    """Slots before the first step: those of training."""
    free_capacity: float
    """The least sum of 1 - usage over the slots that the model is used to, F."""
    limit: int = 5000
    """The most slots of a sample; an input that needs more is refused."""

    def __post_init__(self) -> None:
        require_integer("memory_size.start", self.start, 1)
        require_integer("memory_size.limit", self.limit, self.start)
        known = isinstance(self.free_capacity, (int, float)) and math.isfinite(self.free_capacity)
        if not known or not 0 <= self.free_capacity <= self.start:
            accepted = f"a number from 0 to the {self.start} slots of the start"
            raise SettingError("memory_size.free_capacity", self.free_capacity, accepted)

    @property
    def refusal(self) -> str:
        """The error for an input that needs more."""
        return (
            f"an input needs more than {self.limit} slots of a growing memory; "
            "a larger limit is accepted (Growing.limit)"
        )

    def capacity(self, steps: int) -> int:
        """Slots that so many steps can ever need: a step uses up the worth of one at most."""
        return min(self.limit, self.start + steps)


def slot_mask(slots: Int[Array, "*batch"], capacity: int) -> Bool[Array, "*batch slots"]:
    """Which of the slots that there is room for exist."""
    return jnp.arange(capacity) < slots[..., None]


def free_capacity(usage: Float[Array, "slots"], exists: Bool[Array, "slots"]) -> Float[Array, ""]:
    """The sum of 1 - usage over the slots that exist."""
    return jnp.sum(jnp.where(exists, 1 - usage, 0))


def slots_after_growth(
    slots: Int[Array, ""], usage: Float[Array, "slots"], growing: Growing
) -> Int[Array, ""]:
    """The slots of a sample for the coming write; more than the limit if it needs more."""
    missing = growing.free_capacity - free_capacity(usage, slot_mask(slots, usage.shape[-1]))
    return slots + jnp.maximum(0, jnp.ceil(missing)).astype(slots.dtype)
