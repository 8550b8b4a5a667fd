"""No memory: what is left of a DNC is a recurrent network, for comparison."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jax.typing import DTypeLike

from constrained_dnc.model.growing import Growing
from constrained_dnc.model.memory import AbstractMemory
from constrained_dnc.shapes import Array, Float


class NoMemory(AbstractMemory):
    """Reads nothing, writes nothing; its sizes have no effect."""

    size: int | Growing = eqx.field(static=True)
    word_size: int = eqx.field(static=True)
    num_reads: int = eqx.field(static=True)

    @property
    def interface_size(self) -> int:
        return 0

    @property
    def read_size(self) -> int:
        return 0

    def initial_state(self, dtype: DTypeLike, num_steps: int | None = None) -> tuple[()]:
        return ()

    def __call__(
        self, vector: Float[Array, "interface"], state: tuple[()]
    ) -> tuple[tuple[()], Float[Array, "read_size"]]:
        return (), jnp.zeros(0, vector.dtype)
