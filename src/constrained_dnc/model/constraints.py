"""Constraints on a controller's cell state, or on reads: what is carried on, and losses.

A user-defined constraint is a subclass of `AbstractConstraint`; see `docs/extending.md`.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from constrained_dnc.errors import require_integer, require_number
from constrained_dnc.shapes import AnyArray, Array, Float, Int

STATE_EPSILON = 1e-10
"""Added to a state's squared norm: a zero state has similarity 0 and a finite gradient."""


class AbstractConstraint(eqx.Module):
    """A change of the carried cell state, a loss on the cell states, or both.

    A subclass is built from its settings as keyword arguments and overrides `carry`, `loss` or
    both. If its `__init__` takes `hidden_size` or `key`, it also gets the width of the cell state
    or a JAX key for random arrays. Its arrays are trained, saved and loaded with the model.

    With `acts_on = "reads"` it has the reads of a step in place of the cell state: the vector of
    all heads that goes to the output and, at the next step, to the controller.
    """

    acts_on: ClassVar[Literal["states", "reads"]] = "states"
    is_random: ClassVar[bool] = True  # whether `carry` may use its key

    @property
    def name(self) -> str:
        """The name of its loss, without `_loss`."""
        return type(self).__name__.lower()

    @property
    def has_loss(self) -> bool:
        return type(self).loss is not AbstractConstraint.loss

    @property
    def changes_state(self) -> bool:
        return type(self).carry is not AbstractConstraint.carry

    def carry(self, cell: Float[Array, "cell"], key: Array | None) -> Float[Array, "cell"]:
        """The cell state that a sample carries to the next step, unless a later constraint or
        clipping changes it again.

        Args:
            cell: the sample's cell state after this step, from the controller or from the
                constraint before this one.
            key: for random changes in training; None otherwise.
        """
        return cell

    def loss(
        self,
        before: Float[AnyArray, "time batch cell"],
        carried: Float[AnyArray, "time batch cell"],
        num_steps: Int[AnyArray, "batch"],
    ) -> Float[Array, "batch"] | None:
        """A loss for each sample.

        Args:
            before: the states that reach this constraint, which `carry` takes.
            carried: the states that are carried to the next step: after all constraints and
                clipping.
            num_steps: each sample's number of steps; its states after them are padding.
        """
        return None

    def total(self, loss: Float[Array, ""], own: Float[Array, ""]) -> Float[Array, ""]:
        """Combines the losses of the task and of this constraint.

        Args:
            loss: the loss so far: the mean loss of the task, combined with those of the
                constraints before this one.
            own: the mean of this constraint's `loss` over the batch.
        """
        return loss + own


class Compression(AbstractConstraint):
    """The carried state is tanh of the cell state."""

    is_random: ClassVar[bool] = False

    def carry(self, cell: Float[Array, "cell"], key: Array | None) -> Float[Array, "cell"]:
        return jnp.tanh(cell)


class Regularisation(AbstractConstraint):
    """A loss that pulls the most similar states of a sequence closer together.

    The total is lambda * task loss + (1 - lambda) * state loss.
    """

    task_weight: float = eqx.field(static=True)  # lambda
    num_pairs: int = eqx.field(static=True)  # K

    def __check_init__(self) -> None:
        require_number("regularisation.task_weight", self.task_weight, 0.0, 1.0)
        require_integer("regularisation.num_pairs", self.num_pairs, 1)

    @property
    def name(self) -> str:
        return "state"

    def loss(
        self,
        before: Float[AnyArray, "time batch cell"],
        carried: Float[AnyArray, "time batch cell"],
        num_steps: Int[AnyArray, "batch"],
    ) -> Float[Array, "batch"]:
        return state_loss(carried, num_steps, self.num_pairs)

    def total(self, loss: Float[Array, ""], own: Float[Array, ""]) -> Float[Array, ""]:
        return self.task_weight * loss + (1 - self.task_weight) * own


class Noise(AbstractConstraint):
    """Normal noise on the carried state, in training only."""

    sigma: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        require_number("noise.sigma", self.sigma, 0.0)

    def carry(self, cell: Float[Array, "cell"], key: Array | None) -> Float[Array, "cell"]:
        if key is None:
            return cell
        return cell + self.sigma * jax.random.normal(key, cell.shape, cell.dtype)


class Rounding(AbstractConstraint):
    """The carried state is clipped to [-1, 1] and rounded to one of `levels` values there.

    The gradient is that of the identity (straight-through estimator).
    """

    is_random: ClassVar[bool] = False
    levels: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        require_integer("rounding.levels", self.levels, 2)

    def carry(self, cell: Float[Array, "cell"], key: Array | None) -> Float[Array, "cell"]:
        steps = (self.levels - 1) / 2
        rounded = jnp.round((jnp.clip(cell, -1, 1) + 1) * steps) / steps - 1
        return jax.lax.stop_gradient(rounded) + (cell - jax.lax.stop_gradient(cell))


class Snapping(AbstractConstraint):
    """The carried state is the nearest of a few states; for digital inference only."""

    is_random: ClassVar[bool] = False
    states: Float[Array, "count cell"]

    def carry(self, cell: Float[Array, "cell"], key: Array | None) -> Float[Array, "cell"]:
        distances = jnp.sum((self.states - cell) ** 2, axis=-1)
        return self.states[jnp.argmin(distances)]


def state_loss(
    cell_states: Float[AnyArray, "time batch cell"],
    num_steps: Int[AnyArray, "batch"],
    num_pairs: int,
) -> Float[Array, "batch"]:
    """1 - mean cosine similarity of each sample's `num_pairs` most similar pairs of states.

    Every pair of the sample's first `num_steps` states counts once; if there are fewer pairs, all
    of them are used, and without any the loss is 0.
    """
    return jax.vmap(partial(_state_loss, num_pairs=num_pairs), in_axes=(1, 0))(
        jnp.asarray(cell_states), jnp.asarray(num_steps)
    )


def _state_loss(
    cell_states: Float[Array, "time cell"], num_steps: Int[Array, ""], num_pairs: int
) -> Float[Array, ""]:
    time = cell_states.shape[0]
    step = jnp.arange(time)
    is_pair = (step[:, None] < step[None, :]) & (step[None, :] < num_steps)
    squared_norms = jnp.sum(cell_states**2, axis=-1, keepdims=True)
    directions = cell_states * jax.lax.rsqrt(squared_norms + STATE_EPSILON)
    similarity = jnp.where(is_pair, directions @ directions.T, -jnp.inf)
    closest, _ = jax.lax.top_k(similarity.ravel(), min(num_pairs, time * time))
    exists = closest != -jnp.inf  # NaN counts, so that it shows
    mean = jnp.sum(jnp.where(exists, closest, 0)) / jnp.maximum(jnp.sum(exists), 1)
    return jnp.where(jnp.any(is_pair), 1 - mean, 0)
