"""The digital parts of a model: hard writes, and states that its cell state snaps to."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from constrained_dnc.model.constraints import Snapping
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import DNCMemory
from constrained_dnc.model.leaves import with_fields


@dataclass(frozen=True)
class Measured:
    """Score and loss of a model with some digital parts, at training lengths."""

    writes: str
    states: int | None  # None: the cell state does not snap
    score: float
    loss: float


@dataclass(frozen=True)
class Digital:
    """The digital parts of a model, and the measurements by which they were chosen."""

    writes: str
    """soft, one-hot or one-hot-allocation."""
    states: Float[np.ndarray, "count cell"] | None
    """What the carried cell state snaps to; None if it does not."""
    state_count: int | None = None
    """k*, see `state_count`."""
    tried: tuple[Measured, ...] = ()
    """All measurements, the network's first."""

    def apply(self, model: DNC) -> DNC:
        """The model with these parts."""
        digital = with_writes(model, self.writes)
        if self.states is None:
            return digital
        snapping = Snapping(jnp.asarray(self.states))
        return with_fields(digital, constraints=(*model.constraints, snapping))


def with_writes(model: DNC, writes: str) -> DNC:
    """The model with soft or hard writes; only a DNC's memory has hard ones."""
    if not isinstance(model.memory, DNCMemory):
        return model
    return with_fields(model, memory=with_fields(model.memory, writes=writes))
