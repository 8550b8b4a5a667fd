"""Backends: training and evaluation compute a DNC through this interface only.

`pure` is jitted JAX: the reference, for accelerators and for user-defined parts. `fused` is C++:
the unroll over all steps and its gradient in one call each, for the built-in parts on a CPU. The
loss exists once, in JAX; `fused` continues from its gradient with respect to outputs and cells.
"""

from __future__ import annotations

import abc
import threading
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp

from constrained_dnc.errors import RunError, SettingError, one_of
from constrained_dnc.model import fused
from constrained_dnc.model.config import BACKEND_CHOICES, available_cores
from constrained_dnc.model.constraints import AbstractConstraint
from constrained_dnc.model.dnc import DNC, DNCState, Unrolled
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.losses import task_loss, total_loss
from constrained_dnc.parts import Loss
from constrained_dnc.shapes import AnyArray, Array, Float

Gradient: TypeAlias = tuple[Float[Array, ""], dict[str, Float[Array, ""]], DNC]
"""A loss, its parts by name, and its gradient in the shape of the model."""


class AbstractBackend(abc.ABC):
    """Computes DNCs, and one loss for them.

    `reason` says in a few words why this backend is used.
    """

    name: str

    def __init__(self, loss: Loss, reason: str = "as requested"):
        self.loss = loss
        self.reason = reason

    def value_and_grad(self, model: DNC, batch: Any, key: Array | None = None) -> Gradient:
        """The loss of a batch, its parts by name, and its gradient in the shape of the model.

        The parts include the losses of the model's constraints; `key` is for constraints that are
        random in training.
        """
        return self._differentiate(model, batch, None, key)[:3]

    def value_and_grad_from(
        self, model: DNC, batch: Any, state: DNCState, key: Array | None = None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]], DNC, DNCState]:
        """`value_and_grad` of a batch that continues from `state`, and the state after it.

        The state is a constant: no gradient flows into the steps before.
        """
        return self._differentiate(model, batch, state, key)

    @abc.abstractmethod
    def _differentiate(
        self, model: DNC, batch: Any, state: DNCState | None, key: Array | None
    ) -> Any: ...

    @abc.abstractmethod
    def forward(
        self, model: DNC, inputs: Any, state: DNCState | None = None, *, keep_state: bool = True
    ) -> Unrolled:
        """Outputs and cell states, without a gradient, from empty memories or from `state`.

        The state after the last step is returned unless the memory grows or `keep_state` is False:
        its link has slots * slots numbers per sample.
        """

    @abc.abstractmethod
    def weights(self, model: DNC, inputs: Any) -> tuple[Any, Any] | None:
        """Read (time, batch, reads, slots) and write weights (time, batch, slots), if any."""

    def measure(
        self, model: DNC, batch: Any
    ) -> tuple[Float[Array, ""], Float[Array, "time batch outputs"]]:
        """The mean task loss of a batch, without a gradient, and the outputs it comes from."""
        outputs = self.forward(model, batch.inputs, keep_state=False).outputs
        return _mean_task_loss(outputs, batch, self.loss), outputs


class PureBackend(AbstractBackend):
    """Jitted JAX: gradients are compiled once for every number of steps.

    With neither a gradient nor a state the number of steps is rounded up, so that few programs
    serve all lengths. The added steps are blank and left out of the result: no step sees a later
    one.
    """

    name = "pure"

    def _differentiate(
        self, model: DNC, batch: Any, state: DNCState | None, key: Array | None
    ) -> Any:
        (loss, (parts, end)), gradient = _pure_value_and_grad(model, batch, key, self.loss, state)
        return loss, parts, gradient, end

    def forward(
        self, model: DNC, inputs: Any, state: DNCState | None = None, *, keep_state: bool = True
    ) -> Unrolled:
        model.check_inputs(inputs)
        steps, size = len(inputs), model.memory.size
        if isinstance(size, Growing):
            keep_state = False
        elif state is None and not keep_state:
            inputs = padded(inputs)
        try:
            run = _pure_forward(model, inputs, state, keep_state)
            run.outputs.block_until_ready()
        except eqx.EquinoxRuntimeError as error:
            if not isinstance(size, Growing):
                raise
            raise RunError(size.refusal) from error
        return Unrolled(run.outputs[:steps], run.cell_states[:steps], None, run.state)

    def weights(self, model: DNC, inputs: Any) -> tuple[Any, Any] | None:
        return _pure_weights(model, inputs)


class FusedBackend(AbstractBackend):
    """The C++ kernel, with `threads` that share the batch.

    Python threads that share a backend take turns: a gradient needs the forward pass before it.
    """

    name = "fused"

    def __init__(self, loss: Loss, threads: int = 1, reason: str = "as requested"):
        super().__init__(loss, reason)
        self._unroll = fused.FusedUnroll(threads)
        self._lock = threading.Lock()

    def _differentiate(
        self, model: DNC, batch: Any, state: DNCState | None, key: Array | None
    ) -> Any:
        with self._lock:
            run = self._unroll.forward(
                model, batch.inputs, state=state, key=key, keep=True, end=state is not None
            )
            (loss, parts), cotangents = _loss_and_cotangents(
                run.outputs, run.cell_states, batch, model.constraints, self.loss
            )
            return loss, parts, self._unroll.backward(run, *cotangents), run.state

    def forward(
        self, model: DNC, inputs: Any, state: DNCState | None = None, *, keep_state: bool = True
    ) -> Unrolled:
        end = keep_state and not isinstance(model.memory.size, Growing)
        with self._lock:
            run = self._unroll.forward(model, inputs, state=state, end=end)
        outputs, cell_states = jnp.asarray(run.outputs), jnp.asarray(run.cell_states)
        return Unrolled(outputs, cell_states, None, run.state)

    def weights(self, model: DNC, inputs: Any) -> tuple[Any, Any]:
        with self._lock:
            run = self._unroll.forward(model, inputs, weights=True)
        return run.read_weights, run.write_weights


def choose_backend(
    choice: str, model: DNC, loss: Loss, *, threads: int | None = None
) -> AbstractBackend:
    """The backend for a model: `auto` uses `fused` where possible, and otherwise says why not.

    `threads` is for `fused`; by default it uses all cores available to this process.
    """
    if choice not in BACKEND_CHOICES:
        raise SettingError("backend", choice, one_of(BACKEND_CHOICES))
    if choice == "pure":
        return PureBackend(loss)
    reason, device = fused.unsupported_reason(model), jax.default_backend()
    if reason is None and device != "cpu":
        reason = f"JAX computes on a {device}"
    reason = reason or fused.missing_reason()
    if reason is None:
        threads = available_cores() if threads is None else threads
        why = "as requested" if choice == "fused" else "built-in parts on a CPU"
        return FusedBackend(loss, threads, why)
    if choice == "fused":
        raise SettingError(f"fused cannot run this model: {reason}")
    slower = " (about six times slower than fused)" if device == "cpu" else ""
    return PureBackend(loss, reason + slower)


def padded(inputs: Float[AnyArray, "time batch inputs"]) -> Float[Array, "steps batch inputs"]:
    """Inputs with blank steps up to a rounded length, so that few programs are compiled."""
    blank = rounded_up(len(inputs)) - len(inputs)
    return jnp.pad(inputs, ((0, blank), (0, 0), (0, 0)))


def rounded_up(steps: int) -> int:
    """The next power of two, or three quarters of it.

    >>> [rounded_up(steps) for steps in (1, 4, 5, 7, 22, 33, 202)]
    [4, 4, 6, 8, 24, 48, 256]
    """
    power = max(4, 1 << (steps - 1).bit_length())
    return power * 3 // 4 if 4 < steps <= power * 3 // 4 else power


@eqx.filter_jit
def _pure_value_and_grad(
    model: DNC, batch: Any, key: Array | None, loss: Loss, state: DNCState | None = None
) -> Any:
    def objective(model: DNC) -> Any:
        run = model.unroll(batch.inputs, state, key=key)
        total, parts = total_loss(run.outputs, run.cell_states, batch, loss, model.constraints)
        return total, (parts, None if state is None else run.state)

    with_gradient: Any = eqx.filter_value_and_grad(objective, has_aux=True)
    return with_gradient(model)


@eqx.filter_jit
def _pure_forward(
    model: DNC, inputs: Any, state: DNCState | None = None, keep_state: bool = False
) -> Unrolled:
    run = model.unroll(inputs, state)
    return Unrolled(run.outputs, run.cell_states, None, run.state if keep_state else None)


@eqx.filter_jit
def _pure_weights(model: DNC, inputs: Any) -> tuple[Any, Any] | None:
    inside = model.unroll(inputs, internals=True).internals
    assert inside is not None
    return model.memory.weights(inside.memory)


@partial(jax.jit, static_argnames=("loss",))
def _loss_and_cotangents(
    outputs: Any,
    cell_states: Any,
    batch: Any,
    constraints: tuple[AbstractConstraint, ...],
    loss: Loss,
) -> Any:
    """The loss, its parts and its gradients; None for cell states that no loss uses."""
    objective = partial(total_loss, batch=batch, loss=loss, constraints=constraints)
    if not any(constraint.has_loss for constraint in constraints):
        value, d_outputs = jax.value_and_grad(objective, has_aux=True)(outputs, cell_states)
        return value, (d_outputs, None)
    return jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)(outputs, cell_states)


@partial(jax.jit, static_argnames="loss")
def _mean_task_loss(outputs: Any, batch: Any, loss: Loss) -> Float[Array, ""]:
    return jnp.mean(task_loss(outputs, batch, loss))
