"""Controller networks, which turn the input and the previous reads into h.

A user-defined controller is a subclass of `AbstractController`; see `docs/extending.md`.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from constrained_dnc.errors import SettingError
from constrained_dnc.shapes import Array, Float

ControllerState = Any
"""What a controller carries from step to step: a tree of float arrays, possibly empty."""

lecun_normal = jax.nn.initializers.lecun_normal(in_axis=-1, out_axis=-2)
glorot_uniform = jax.nn.initializers.glorot_uniform(in_axis=-1, out_axis=-2)


class ControllerStep(eqx.Module):
    """What a controller returns at one step."""

    hidden: Float[Array, "hidden"]  # h, seen by the interface and the output
    state: ControllerState  # for the next step, before constraints and clipping
    squashed: Float[Array, "cell"] | None = None  # tanh of the cell state, if h needs it


class AbstractController(eqx.Module):
    """The network inside a DNC, for one sample.

    A subclass is built as `Class(input_size, hidden_size, key=key)` and says how it starts, what
    one step does, and which part of its state is the cell state: the part that constraints act
    on and that analyses show.
    """

    hidden_size: eqx.AbstractVar[int]

    @abstractmethod
    def initial_state(self) -> ControllerState:
        """The state before the first step; trainable when it is made of parameters."""

    @abstractmethod
    def __call__(self, inputs: Float[Array, "chi"], state: ControllerState) -> ControllerStep:
        """One step.

        Args:
            inputs: chi, the inputs of the step, then all reads of the step before.
            state: the state after the step before, constrained and clipped, or the initial one.
        """

    @abstractmethod
    def cell_state(self, state: ControllerState) -> Float[Array, "cell"]:
        """The part of a state that is constrained and analysed.

        Args:
            state: a state of this controller.

        Returns:
            The cell state, of width 0 for a controller without one: `jnp.zeros(0)`.
        """

    def with_cell_state(self, state: ControllerState, cell: Float[Array, "cell"]) -> Any:
        """The state with another cell state; override this if the state is not a single array.

        Args:
            state: a state of this controller.
            cell: the new cell state, of the same width.
        """
        if not eqx.is_array(state):
            raise SettingError(
                f"{type(self).__name__} must define with_cell_state(state, cell) to be used with "
                "a constraint, as its state is not a single array"
            )
        return cell


class LstmState(eqx.Module):
    cell: Float[Array, "*batch hidden"]  # c
    hidden: Float[Array, "*batch hidden"] | None  # h, unless the gates see c instead


class Lstm(AbstractController):
    """LSTM whose gates and candidate see [chi ; h], or with `peephole` [chi ; c].

    With `peephole`, h is not carried through time.
    """

    weight: Float[Array, "gates seen"]  # W_i, W_f, W_c, W_o, stacked
    bias: Float[Array, "gates"]
    initial_cell: Float[Array, "hidden"]
    initial_hidden: Float[Array, "hidden"] | None
    hidden_size: int = eqx.field(static=True)
    peephole: bool = eqx.field(static=True)
    forget_bias: float = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        peephole: bool = False,
        forget_bias: float = 0.0,
        key: Array,
    ):
        keys = jax.random.split(key, 2 if peephole else 3)
        self.weight = lecun_normal(keys[0], (4 * hidden_size, input_size + hidden_size))
        self.bias = jnp.zeros(4 * hidden_size)
        self.initial_cell = jax.random.normal(keys[1], (hidden_size,))
        self.initial_hidden = None if peephole else jax.random.normal(keys[2], (hidden_size,))
        self.hidden_size = hidden_size
        self.peephole = peephole
        self.forget_bias = forget_bias

    def initial_state(self) -> LstmState:
        return LstmState(self.initial_cell, self.initial_hidden)

    def __call__(self, inputs: Float[Array, "chi"], state: LstmState) -> ControllerStep:
        recurrent = state.cell if state.hidden is None else state.hidden
        seen = jnp.concatenate([inputs, recurrent])
        gates = jnp.split(self.weight @ seen + self.bias, 4)
        input_gate, forget_gate, candidate, output_gate = gates
        # c = f c + i tanh(g), h = o tanh(c): with compression, the same tanh(c) is carried
        kept = jax.nn.sigmoid(forget_gate + self.forget_bias) * state.cell
        cell = kept + jax.nn.sigmoid(input_gate) * jnp.tanh(candidate)
        squashed = jnp.tanh(cell)
        hidden = jax.nn.sigmoid(output_gate) * squashed
        return ControllerStep(hidden, LstmState(cell, None if self.peephole else hidden), squashed)

    def cell_state(self, state: LstmState) -> Float[Array, "cell"]:
        return state.cell

    def with_cell_state(self, state: LstmState, cell: Float[Array, "cell"]) -> LstmState:
        return LstmState(cell, state.hidden)


peephole_lstm = partial(Lstm, peephole=True)
"""The built-in controller `peephole`."""


class FeedForward(AbstractController):
    """Three layers, tanh after the first two; no state."""

    weight_1: Float[Array, "hidden chi"]
    bias_1: Float[Array, "hidden"]
    weight_2: Float[Array, "hidden hidden"]
    bias_2: Float[Array, "hidden"]
    weight_3: Float[Array, "hidden hidden"]
    bias_3: Float[Array, "hidden"]
    hidden_size: int = eqx.field(static=True)

    def __init__(self, input_size: int, hidden_size: int, *, key: Array):
        key_1, key_2, key_3 = jax.random.split(key, 3)
        self.weight_1 = glorot_uniform(key_1, (hidden_size, input_size))
        self.weight_2 = glorot_uniform(key_2, (hidden_size, hidden_size))
        self.weight_3 = glorot_uniform(key_3, (hidden_size, hidden_size))
        self.bias_1 = self.bias_2 = self.bias_3 = jnp.zeros(hidden_size)
        self.hidden_size = hidden_size

    def initial_state(self) -> tuple[()]:
        return ()

    def __call__(self, inputs: Float[Array, "chi"], state: tuple[()]) -> ControllerStep:
        hidden = jnp.tanh(self.weight_1 @ inputs + self.bias_1)
        hidden = jnp.tanh(self.weight_2 @ hidden + self.bias_2)
        return ControllerStep(self.weight_3 @ hidden + self.bias_3, state)

    def cell_state(self, state: tuple[()]) -> Float[Array, "cell"]:
        return jnp.zeros(0, self.bias_1.dtype)
