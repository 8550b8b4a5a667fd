"""The loss of the task, and the total loss, to which constraints such as regularisation add."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import optax

from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.model.constraints import AbstractConstraint
from constrained_dnc.parts import LOSSES, Loss
from constrained_dnc.shapes import AnyArray, Array, Bool, Float, Int


@runtime_checkable
class LossTargets(Protocol):
    """The part of a task's batch that a loss uses."""

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
    kind: Loss,
    constraints: Iterable[AbstractConstraint] = (),
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The loss that training minimises, and its parts by name; `kind` is the task's `loss`.

    It starts as the loss of the task; the `total` of each constraint with a loss combines it with
    its own. All are means over the batch.
    """
    if outputs.shape != batch.targets.shape:
        accepted = f"{batch.targets.shape}, like the targets"
        raise SettingError("shape of outputs", outputs.shape, accepted)
    total = jnp.mean(task_loss(outputs, batch.targets, batch.mask, kind))
    parts = {"task_loss": total}
    for constraint in constraints:
        losses = constraint.loss(cell_states, batch.num_steps)
        if losses is not None:
            own = parts[f"{constraint.name}_loss"] = jnp.mean(losses)
            total = constraint.total(total, own)
    return total, parts


def task_loss(
    outputs: Float[AnyArray, "time batch outputs"],
    targets: Float[AnyArray, "time batch outputs"],
    mask: Bool[AnyArray, "time batch"],
    kind: Loss,
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
