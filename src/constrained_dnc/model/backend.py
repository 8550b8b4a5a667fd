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
from constrained_dnc.model.leaves import with_fields
from constrained_dnc.model.losses import task_loss, total_loss
from constrained_dnc.parts import Loss
from constrained_dnc.shapes import AnyArray, Array, Float, Int

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
    """Jitted JAX: one compiled program for all lengths.

    Inputs are padded to `longest` steps, and longer ones to a rounded length. Padding is skipped
    when the program runs, and the loss never sees it.
    """

    name = "pure"

    def __init__(self, loss: Loss, reason: str = "as requested", longest: int = 0):
        super().__init__(loss, reason)
        self._longest = longest

    def _differentiate(
        self, model: DNC, batch: Any, state: DNCState | None, key: Array | None
    ) -> Any:
        model.check_inputs(batch.inputs)
        inputs, steps = padded(batch.inputs, self._longest)
        run, pull_back, end = _pure_vjp(model, inputs, steps, state, key)
        value, gradients = _loss_and_gradients(run, batch, model.constraints, self.loss)
        return *value, _pull_back(pull_back, *gradients), end

    def forward(
        self, model: DNC, inputs: Any, state: DNCState | None = None, *, keep_state: bool = True
    ) -> Unrolled:
        model.check_inputs(inputs)
        time, steps, size = len(inputs), None, model.memory.size
        if isinstance(size, Growing):
            keep_state = False
        else:
            inputs, steps = padded(inputs, self._longest)
        try:
            run = _pure_forward(model, inputs, steps, state, keep_state)
            run.outputs.block_until_ready()
        except eqx.EquinoxRuntimeError as error:
            if not isinstance(size, Growing):
                raise
            raise RunError(size.refusal) from error
        before = tuple(states[:time] for states in run.states_before)
        reads = None if run.reads is None else run.reads[:time]
        cells = run.cell_states[:time]
        return Unrolled(run.outputs[:time], cells, before, state=run.state, reads=reads)

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
            result = Unrolled(jnp.asarray(run.outputs), jnp.asarray(run.cell_states))
            value, (of_run, of_constraints) = _loss_and_gradients(
                result, batch, model.constraints, self.loss
            )
            has_state_loss = any(constraint.has_loss for constraint in model.constraints)
            gradient = self._unroll.backward(
                run, of_run.outputs, of_run.cell_states if has_state_loss else None
            )
            return *value, with_fields(gradient, constraints=of_constraints), run.state

    def forward(
        self, model: DNC, inputs: Any, state: DNCState | None = None, *, keep_state: bool = True
    ) -> Unrolled:
        end = keep_state and not isinstance(model.memory.size, Growing)
        with self._lock:
            run = self._unroll.forward(model, inputs, state=state, end=end)
        outputs, cell_states = jnp.asarray(run.outputs), jnp.asarray(run.cell_states)
        return Unrolled(outputs, cell_states, state=run.state)

    def weights(self, model: DNC, inputs: Any) -> tuple[Any, Any]:
        with self._lock:
            run = self._unroll.forward(model, inputs, weights=True)
        return run.read_weights, run.write_weights


def choose_backend(
    choice: str, model: DNC, loss: Loss, *, threads: int | None = None, longest: int = 0
) -> AbstractBackend:
    """The backend for a model: `auto` uses `fused` where possible, and otherwise says why not.

    Args:
        choice: `auto`, `fused` or `pure`.
        model: of the structure that will be computed; its parameters do not matter.
        loss: the `loss` of the task.
        threads: for `fused`, by default all cores available to this process.
        longest: for `pure`, the number of steps that the compiled program has room for.
    """
    if choice not in BACKEND_CHOICES:
        raise SettingError("backend", choice, one_of(BACKEND_CHOICES))
    if choice == "pure":
        return PureBackend(loss, longest=longest)
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
    slower = " (about four times slower than fused)" if device == "cpu" else ""
    return PureBackend(loss, reason + slower, longest)


def padded(
    inputs: Float[AnyArray, "time batch inputs"], longest: int = 0
) -> tuple[Float[Array, "steps batch inputs"], Int[Array, ""]]:
    """Inputs with blank steps, up to `longest` or a rounded length, and how many steps they had."""
    time = len(inputs)
    blank = (longest if time <= longest else rounded_up(time)) - time
    return jnp.pad(inputs, ((0, blank), (0, 0), (0, 0))), jnp.asarray(time)


def rounded_up(steps: int) -> int:
    """The next power of two, or three quarters of it.

    >>> [rounded_up(steps) for steps in (1, 4, 5, 7, 22, 33, 202)]
    [4, 4, 6, 8, 24, 48, 256]
    """
    power = max(4, 1 << (steps - 1).bit_length())
    return power * 3 // 4 if 4 < steps <= power * 3 // 4 else power


@eqx.filter_jit
def _pure_vjp(
    model: DNC, inputs: Any, steps: Any, state: DNCState | None, key: Array | None
) -> Any:
    """A run, the function from its gradient to the model's, and the state after its last step."""
    parameters, static = eqx.partition(model, eqx.is_inexact_array)

    def unroll(parameters: DNC) -> tuple[Unrolled, DNCState | None]:
        model: DNC = eqx.combine(parameters, static)
        run = model.unroll(inputs, state, key=key, num_steps=steps)
        end = None if state is None else run.state
        kept = Unrolled(run.outputs, run.cell_states, run.states_before, reads=run.reads)
        return kept, end

    return jax.vjp(unroll, parameters, has_aux=True)


@eqx.filter_jit
def _pull_back(pull_back: Any, of_run: Unrolled, of_constraints: Any) -> DNC:
    """The model's gradient; arrays of constraints act through the run and through their loss."""
    (gradient,) = pull_back(of_run)
    both = jax.tree.map(jnp.add, gradient.constraints, of_constraints)
    return with_fields(gradient, constraints=both)


@eqx.filter_jit
def _pure_forward(
    model: DNC, inputs: Any, steps: Any, state: DNCState | None, keep_state: bool
) -> Unrolled:
    run = model.unroll(inputs, state, num_steps=steps)
    end = run.state if keep_state else None
    return Unrolled(run.outputs, run.cell_states, run.states_before, state=end, reads=run.reads)


@eqx.filter_jit
def _pure_weights(model: DNC, inputs: Any) -> tuple[Any, Any] | None:
    inside = model.unroll(inputs, internals=True).internals
    assert inside is not None
    return model.memory.weights(inside.memory)


@eqx.filter_jit
def _loss_and_gradients(
    run: Unrolled, batch: Any, constraints: tuple[AbstractConstraint, ...], loss: Loss
) -> Any:
    """The loss and its parts, and the gradients of the run and of the constraints' own arrays."""
    steps = len(batch.targets)

    def objective(both: tuple[Unrolled, tuple[AbstractConstraint, ...]]) -> Any:
        run = jax.tree.map(lambda values: values[:steps], both[0])  # without padding
        return total_loss(run, batch, loss, both[1])

    with_gradient: Any = eqx.filter_value_and_grad(objective, has_aux=True)
    return with_gradient((run, constraints))


@partial(jax.jit, static_argnames="loss")
def _mean_task_loss(outputs: Any, batch: Any, loss: Loss) -> Float[Array, ""]:
    return jnp.mean(task_loss(outputs, batch, loss))
