"""Losses: of the task, of the controller's states, and their weighted sum."""

from __future__ import annotations

from functools import partial
from typing import Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
import optax

from constrained_dnc.approaches import Regularisation
from constrained_dnc.choices import LOSSES
from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.shapes import AnyArray, Array, Bool, Float, Int

STATE_EPSILON = 1e-10
"""Added to a state's squared norm: a zero state has similarity 0 and a finite gradient."""

LossKind: TypeAlias = str  # one of LOSSES; any other is refused


@runtime_checkable
class LossTargets(Protocol):
    """The part of a task's batch that a loss looks at."""

    @property
    def targets(self) -> Float[AnyArray, "time batch outputs"]: ...

    @property
    def mask(self) -> Bool[AnyArray, "time batch"]: ...

    @property
    def num_steps(self) -> Int[AnyArray, "batch"]: ...


def total_loss(
    outputs: Float[AnyArray, "time batch outputs"],
    cell_states: Float[AnyArray, "time batch cell"],
    batch: LossTargets,
    kind: LossKind,
    regularisation: Regularisation | None = None,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """What training minimises, and its parts by name; `kind` is a task's `loss`.

    The mean over the batch of lambda * task loss + (1 - lambda) * state loss, or of the task
    loss alone without a regularisation.
    """
    if outputs.shape != batch.targets.shape:
        raise SettingError("shape of outputs", outputs.shape, f"{batch.targets.shape}, as targets")
    of_task = jnp.mean(task_loss(outputs, batch.targets, batch.mask, kind))
    if regularisation is None:
        return of_task, {"task_loss": of_task}
    of_state = jnp.mean(state_loss(cell_states, batch.num_steps, regularisation.num_pairs))
    weight = regularisation.task_weight
    total = weight * of_task + (1 - weight) * of_state
    return total, {"task_loss": of_task, "state_loss": of_state}


def task_loss(
    outputs: Float[AnyArray, "time batch outputs"],
    targets: Float[AnyArray, "time batch outputs"],
    mask: Bool[AnyArray, "time batch"],
    kind: LossKind,
) -> Float[Array, "batch"]:
    """Mean over the output channels and the masked steps of each sample.

    For `cross-entropy` the outputs are logits.
    """
    if kind not in LOSSES:
        raise SettingError("loss", kind, one_of(LOSSES))
    if kind == "squared error":
        errors = (outputs - targets) ** 2
    else:
        errors = optax.sigmoid_binary_cross_entropy(outputs, targets)
    per_step = jnp.mean(errors, axis=-1)
    steps = jnp.maximum(jnp.sum(mask, axis=0), 1)
    return jnp.sum(jnp.where(mask, per_step, 0), axis=0) / steps


def state_loss(
    cell_states: Float[AnyArray, "time batch cell"],
    num_steps: Int[AnyArray, "batch"],
    num_pairs: int,
) -> Float[Array, "batch"]:
    """1 - mean cosine similarity of each sample's `num_pairs` most similar pairs of states.

    Every pair of the sample's own `num_steps` states counts once; with fewer pairs than asked
    for all of them are used, and without any the loss is 0.
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
    found = closest != -jnp.inf  # NaN stays in, to be seen
    mean = jnp.sum(jnp.where(found, closest, 0)) / jnp.maximum(jnp.sum(found), 1)
    return jnp.where(jnp.any(is_pair), 1 - mean, 0)
