"""What a memory is, and the simplest one: none. See also `dnc_memory.py` and `ntm_memory.py`.

A user-defined memory is a subclass of `AbstractMemory`; see `docs/extending.md`.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import DTypeLike

from constrained_dnc.errors import SettingError, require_integer
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.leaves import with_fields
from constrained_dnc.shapes import Array, Float


class AbstractMemory(eqx.Module):
    """What a controller writes to and reads from, for one sample.

    It gets one interface vector per step and returns one vector of reads, which go to the output
    and, at the next step, to the controller. A subclass is built as
    `Class(memory_size, word_size, num_reads, **settings)`.
    """

    size: eqx.AbstractVar[int | Growing]

    @property
    @abstractmethod
    def interface_size(self) -> int:
        """Entries of the interface vector."""

    @property
    @abstractmethod
    def read_size(self) -> int:
        """Entries of the reads."""

    @abstractmethod
    def initial_state(self, dtype: DTypeLike, num_steps: int | None = None) -> Any:
        """The state before the first step: a tree of arrays.

        Args:
            dtype: of the arrays.
            num_steps: the steps that a growing memory must have room for.
        """

    @abstractmethod
    def __call__(
        self, vector: Float[Array, "interface"], state: Any
    ) -> tuple[Any, Float[Array, "read_size"]]:
        """One step.

        Args:
            vector: the interface vector, an affine function of the controller's output.
            state: the state after the step before.

        Returns:
            The new state, and the reads in one vector.
        """

    @property
    def can_grow(self) -> bool:
        """Whether `size` may be a `Growing`."""
        return False

    def split(self, vector: Float[Array, "interface"]) -> Any:
        """The parts of an interface vector by name, for analyses.

        Args:
            vector: the interface vector of a step.
        """
        return vector

    def weights(self, state: Any) -> tuple[Any, Any] | None:
        """The weights of the heads, if any: training logs their entropies.

        Args:
            state: the state after a step.

        Returns:
            Read weights (reads, slots) and write weights (slots).
        """
        return None

    def check_end(
        self, state: Any, outputs: Float[Array, "time batch outputs"]
    ) -> Float[Array, "time batch outputs"]:
        """The outputs of a run, or an error if its memory was too small for them to be valid.

        Args:
            state: the states of a batch after the last step.
            outputs: the network's outputs.
        """
        return outputs

    def with_size(self, size: int | Growing) -> AbstractMemory:
        """This memory with another number of slots.

        Args:
            size: a number of slots, or a rule for how the memory grows.
        """
        if not isinstance(size, Growing):
            require_integer("memory_size", size, 1)
        else:
            self.require_growth()
        return with_fields(self, size=size)

    def require_growth(self) -> None:
        """Refuse a memory that cannot grow."""
        if not self.can_grow:
            raise SettingError(f"{type(self).__name__} is a memory that cannot grow")


class NoMemory(AbstractMemory):
    """Reads nothing, writes nothing: what remains of a DNC is its controller."""

    size: int | Growing = eqx.field(static=True)
    word_size: int = eqx.field(static=True)  # unused, like the others
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


def cut(vector: Float[Array, "entries"], sizes: dict[str, int]) -> dict[str, Float[Array, "part"]]:
    """The parts of a vector by name, in the order of their sizes."""
    ends = list(accumulate(sizes.values()))
    return dict(zip(sizes, jnp.split(vector, ends[:-1]), strict=True))
