"""Controller networks: what turns the input and the last reads into the next request.

A controller of your own is a subclass of `AbstractController`; see `docs/extending.md`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from constrained_dnc.shapes import Array, Float

ControllerState = Any
"""Whatever a controller carries from step to step: a tree of float arrays, possibly empty."""

lecun_normal = jax.nn.initializers.lecun_normal(in_axis=-1, out_axis=-2)
glorot_uniform = jax.nn.initializers.glorot_uniform(in_axis=-1, out_axis=-2)


class ControllerStep(eqx.Module):
    """What a controller returns at one step."""

    hidden: Float[Array, "hidden"]  # h, seen by the interface and the output
    state: ControllerState  # carried to the next step
    uncompressed: Float[Array, "cell"]  # the cell state before compression, for analyses


class AbstractController(eqx.Module):
    """The network inside a DNC, for one sample.

    A subclass is built as `Kind(input_size, hidden_size, key=key)` and says how it starts, what
    one step does, and which part of its state is regularised and analysed.
    """

    hidden_size: eqx.AbstractVar[int]

    @abstractmethod
    def initial_state(self) -> ControllerState:
        """The state before the first step; trainable when it is made of parameters."""

    @abstractmethod
    def __call__(self, inputs: Float[Array, "chi"], state: ControllerState) -> ControllerStep:
        """One step on chi = [x ; reads of the step before]."""

    @abstractmethod
    def cell_state(self, state: ControllerState) -> Float[Array, "cell"]:
        """The carried cell state, of width 0 for a controller without a state."""


class LstmState(eqx.Module):
    cell: Float[Array, "hidden"]  # c
    hidden: Float[Array, "hidden"]  # h


class Lstm(AbstractController):
    """LSTM whose gates and candidate see [chi ; h], optionally with a compressed cell state."""

    weight: Float[Array, "gates seen"]  # W_i, W_f, W_c, W_o, stacked
    bias: Float[Array, "gates"]
    initial_cell: Float[Array, "hidden"]
    initial_hidden: Float[Array, "hidden"]
    hidden_size: int = eqx.field(static=True)
    compression: bool = eqx.field(static=True)
    forget_bias: float = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        compression: bool = False,
        forget_bias: float = 0.0,
        key: Array,
    ):
        weight_key, cell_key, hidden_key = jax.random.split(key, 3)
        self.weight = lecun_normal(weight_key, (4 * hidden_size, input_size + hidden_size))
        self.bias = jnp.zeros(4 * hidden_size)
        self.initial_cell = jax.random.normal(cell_key, (hidden_size,))
        self.initial_hidden = jax.random.normal(hidden_key, (hidden_size,))
        self.hidden_size = hidden_size
        self.compression = compression
        self.forget_bias = forget_bias

    def initial_state(self) -> LstmState:
        return LstmState(self.initial_cell, self.initial_hidden)

    def __call__(self, inputs: Float[Array, "chi"], state: LstmState) -> ControllerStep:
        gates = self.weight @ jnp.concatenate([inputs, state.hidden]) + self.bias
        hidden, cell, uncompressed = _lstm_cell(
            gates, state.cell, self.compression, self.forget_bias
        )
        return ControllerStep(hidden, LstmState(cell, hidden), uncompressed)

    def cell_state(self, state: LstmState) -> Float[Array, "cell"]:
        return state.cell


class PeepholeLstm(AbstractController):
    """LSTM whose gates and candidate see [chi ; c]; h is not carried through time."""

    weight: Float[Array, "gates seen"]  # W_i, W_f, W_c, W_o, stacked
    bias: Float[Array, "gates"]
    initial_cell: Float[Array, "hidden"]
    hidden_size: int = eqx.field(static=True)
    compression: bool = eqx.field(static=True)
    forget_bias: float = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        compression: bool = False,
        forget_bias: float = 0.0,
        key: Array,
    ):
        weight_key, cell_key = jax.random.split(key)
        self.weight = lecun_normal(weight_key, (4 * hidden_size, input_size + hidden_size))
        self.bias = jnp.zeros(4 * hidden_size)
        self.initial_cell = jax.random.normal(cell_key, (hidden_size,))
        self.hidden_size = hidden_size
        self.compression = compression
        self.forget_bias = forget_bias

    def initial_state(self) -> Float[Array, "hidden"]:
        return self.initial_cell

    def __call__(
        self, inputs: Float[Array, "chi"], state: Float[Array, "hidden"]
    ) -> ControllerStep:
        gates = self.weight @ jnp.concatenate([inputs, state]) + self.bias
        hidden, cell, uncompressed = _lstm_cell(gates, state, self.compression, self.forget_bias)
        return ControllerStep(hidden, cell, uncompressed)

    def cell_state(self, state: Float[Array, "hidden"]) -> Float[Array, "cell"]:
        return state


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
        hidden = self.weight_3 @ hidden + self.bias_3
        return ControllerStep(hidden, state, self.cell_state(state))

    def cell_state(self, state: tuple[()]) -> Float[Array, "cell"]:
        return jnp.zeros(0, self.bias_1.dtype)


def _lstm_cell(
    gates: Float[Array, "gates"],
    cell: Float[Array, "hidden"],
    compression: bool,
    forget_bias: float,
) -> tuple[Float[Array, "hidden"], Float[Array, "hidden"], Float[Array, "hidden"]]:
    """h, the carried c, and c before compression, from the pre-activations of the gates."""
    input_gate, forget_gate, candidate, output_gate = jnp.split(gates, 4)
    kept = jax.nn.sigmoid(forget_gate + forget_bias) * cell
    uncompressed = kept + jax.nn.sigmoid(input_gate) * jnp.tanh(candidate)
    squashed = jnp.tanh(uncompressed)
    hidden = jax.nn.sigmoid(output_gate) * squashed
    return hidden, squashed if compression else uncompressed, uncompressed
