"""A controller that is a table: it runs a machine in place of the network's controller."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from constrained_dnc.model.controllers import AbstractController, ControllerStep
from constrained_dnc.model.dnc import DNC
from constrained_dnc.shapes import Array, Float, Int


class TableController(AbstractController):
    """Looks up (state, input symbol, read symbol); its carried state is one-hot."""

    inputs: Float[Array, "symbols inputs"]
    reads: Float[Array, "read_symbols read_size"]
    next_state: Int[Array, "states symbols read_symbols"]
    command: Int[Array, "states symbols read_symbols"]
    hidden: Float[Array, "commands hidden"]
    start: Int[Array, ""]
    hidden_size: int = eqx.field(static=True)

    def initial_state(self) -> Float[Array, "states"]:
        return jax.nn.one_hot(self.start, len(self.next_state), dtype=self.hidden.dtype)

    def __call__(
        self, inputs: Float[Array, "chi"], state: Float[Array, "states"]
    ) -> ControllerStep:
        width = self.inputs.shape[-1]
        place = (
            jnp.argmax(state),
            nearest(self.inputs, inputs[:width]),
            nearest(self.reads, inputs[width:]),
        )
        after = jax.nn.one_hot(self.next_state[place], len(state), dtype=state.dtype)
        return ControllerStep(self.hidden[self.command[place]], after)

    def cell_state(self, state: Float[Array, "states"]) -> Float[Array, "states"]:
        return state


def nearest(points: Float[Array, "count size"], vector: Float[Array, "size"]) -> Int[Array, ""]:
    """The index of the point nearest to a vector, the first of equals."""
    return jnp.argmin(jnp.sum((points - vector) ** 2, axis=-1))


def with_controller(model: DNC, controller: AbstractController) -> DNC:
    """The model with another controller, whose state nothing constrains; memory as before."""
    model = eqx.tree_at(
        lambda dnc: dnc.controller,
        model,
        controller,
        is_leaf=lambda node: isinstance(node, AbstractController),
    )
    return eqx.tree_at(
        lambda dnc: dnc.constraints, model, (), is_leaf=lambda node: isinstance(node, tuple)
    )
