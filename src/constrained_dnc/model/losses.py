"""The loss of the task, and the total loss, to which constraints such as regularisation add."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
import optax

from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.model.constraints import AbstractConstraint
from constrained_dnc.model.dnc import Unrolled
from constrained_dnc.parts import LOSSES, Loss, Softmax
from constrained_dnc.plugins import naming_failures
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
    run: Unrolled,
    batch: LossTargets,
    loss: Loss,
    constraints: Iterable[AbstractConstraint] = (),
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The loss that training minimises, and its parts by name.

    It starts as the loss of the task; the `total` of each constraint with a loss combines it with
    its own. All are means over the batch.

    Args:
        run: the model's outputs, and its cell states for constraints.
        batch: the samples, with `targets`, `mask` and `num_steps`.
        loss: the `loss` of the task.
        constraints: those of the model.
    """
    if run.outputs.shape != batch.targets.shape:
        accepted = f"{batch.targets.shape}, like the targets"
        raise SettingError("shape of outputs", run.outputs.shape, accepted)
    total = jnp.mean(task_loss(run.outputs, batch, loss))
    parts = {"task_loss": total}
    # The kernel returns no states before a constraint; no loss that it is used for needs them.
    unknown = jnp.full(run.cell_states.shape, jnp.nan, run.cell_states.dtype)
    for index, constraint in enumerate(constraints):
        before = run.states_before[index] if run.states_before else unknown
        carried: Any = run.reads if constraint.acts_on == "reads" else run.cell_states
        losses = constraint.loss(before, carried, batch.num_steps)
        if losses is not None:
            own = parts[f"{constraint.name}_loss"] = jnp.mean(losses)
            total = constraint.total(total, own)
    return total, parts


def task_loss(
    outputs: Float[AnyArray, "time batch outputs"], batch: LossTargets, loss: Loss
) -> Float[Array, "batch"]:
    """The loss of each sample: for built-in losses, the mean over channels and masked steps.

    For `cross-entropy` and `softmax` the outputs are logits; `softmax` has one value for each group
    of channels.

    Args:
        outputs: the network's outputs.
        batch: the samples, with `targets`, `mask` and `num_steps`.
        loss: the `loss` of the task: a built-in one, or a function of outputs and batch.
    """
    if not isinstance(loss, str | Softmax) and callable(loss):
        with naming_failures("the user-defined loss"):
            losses = jnp.asarray(loss(outputs, batch))
        if losses.shape != outputs.shape[1:2]:
            accepted = f"one number per sample, of shape {outputs.shape[1:2]}"
            raise SettingError("the user-defined loss", losses.shape, accepted)
        return losses
    if loss == "squared error":
        errors = (outputs - batch.targets) ** 2
    elif loss == "cross-entropy":
        errors = optax.sigmoid_binary_cross_entropy(outputs, batch.targets)
    elif isinstance(loss, Softmax) or loss == "softmax":
        groups = loss.groups if isinstance(loss, Softmax) else outputs.shape[2:]
        errors = _grouped_softmax(outputs, batch.targets, groups)
    else:
        raise SettingError("loss", loss, one_of(LOSSES))
    per_step = jnp.mean(errors, axis=-1)
    steps = jnp.maximum(jnp.sum(batch.mask, axis=0), 1)
    return jnp.sum(jnp.where(batch.mask, per_step, 0), axis=0) / steps


def _grouped_softmax(
    outputs: Float[AnyArray, "time batch outputs"],
    targets: Float[AnyArray, "time batch outputs"],
    groups: tuple[int, ...],
) -> Float[Array, "time batch groups"]:
    """The cross-entropy of each group of channels with its one-hot target."""
    ends = np.cumsum(groups)[:-1].tolist()
    pairs = zip(jnp.split(outputs, ends, 2), jnp.split(targets, ends, 2), strict=True)
    return jnp.stack([optax.softmax_cross_entropy(y, target) for y, target in pairs], axis=-1)
