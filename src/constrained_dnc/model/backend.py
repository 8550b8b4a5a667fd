"""The seam between a DNC and what computes it: training and evaluation know nothing else.

`pure` is jitted JAX: the reference, the path of accelerators and of a controller of your own.
`fused` is C++: the whole unroll and its gradient in one call each, for the built-in controllers
on a CPU. The loss exists once, in JAX; `fused` takes its gradient with respect to outputs and
cell states and carries on from there.
"""

from __future__ import annotations

import abc
import threading
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from constrained_dnc.approaches import Regularisation
from constrained_dnc.choices import BACKEND_CHOICES, LOSSES
from constrained_dnc.cores import available_cores
from constrained_dnc.errors import RunError, SettingError, one_of, require_integer
from constrained_dnc.model import fused
from constrained_dnc.model.dnc import DNC, Unrolled
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.losses import LossKind, LossTargets, task_loss, total_loss
from constrained_dnc.shapes import AnyArray, Array, Float


class AbstractBackend(abc.ABC):
    """Computes one kind of loss for DNCs of one kind.

    `reason` says in a few words why this backend is used.
    """

    name: str
    reason: str

    def __init__(self, kind: LossKind, regularisation: Regularisation | None, memory_size: int):
        require_integer("memory_size", memory_size, 1)
        if kind not in LOSSES:
            raise SettingError("loss", kind, one_of(LOSSES))
        self.kind = kind
        self.regularisation = regularisation
        self.memory_size = memory_size

    @abc.abstractmethod
    def value_and_grad(
        self, model: DNC, batch: Any
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]], DNC]:
        """The loss of a batch, its parts by name, and its gradient in the shape of the model."""

    @abc.abstractmethod
    def forward(
        self, model: DNC, inputs: Any, memory_size: int | Growing | None = None
    ) -> Unrolled:
        """Outputs and cell states, without a gradient, for any memory size or a growing one."""

    @abc.abstractmethod
    def weights(self, model: DNC, inputs: Any) -> tuple[Any, Any]:
        """Read (time, batch, reads, slots) and write weights (time, batch, slots)."""

    def measure(
        self, model: DNC, batch: Any
    ) -> tuple[Float[Array, ""], Float[Array, "time batch outputs"]]:
        """The mean task loss of a batch, without a gradient, and the outputs it comes from."""
        outputs = self.forward(model, batch.inputs).outputs
        return _mean_task_loss(outputs, batch.targets, batch.mask, self.kind), outputs


class PureBackend(AbstractBackend):
    """Jitted JAX: gradients are compiled once for every number of steps.

    Without a gradient the number of steps is rounded up, so that few programs serve all lengths.
    The steps after the end are blank and left out of the result: no step sees a later one.
    """

    name = "pure"

    def __init__(
        self,
        kind: LossKind,
        regularisation: Regularisation | None,
        memory_size: int,
        reason: str = "as asked for",
    ):
        super().__init__(kind, regularisation, memory_size)
        self.reason = reason

    def value_and_grad(
        self, model: DNC, batch: Any
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]], DNC]:
        (loss, parts), gradient = _pure_value_and_grad(
            model,
            _Answers.of(batch),
            batch.inputs,
            self.memory_size,
            self.kind,
            self.regularisation,
        )
        return loss, parts, gradient

    def forward(
        self, model: DNC, inputs: Any, memory_size: int | Growing | None = None
    ) -> Unrolled:
        if isinstance(memory_size, Growing):
            return _grown(model, inputs, memory_size)
        size = self.memory_size if memory_size is None else memory_size
        model.check_run(inputs, size)
        steps = len(inputs)
        unrolled = _pure_forward(model, padded(inputs), size)
        return Unrolled(unrolled.outputs[:steps], unrolled.cell_states[:steps], None)

    def weights(self, model: DNC, inputs: Any) -> tuple[Any, Any]:
        return _pure_weights(model, inputs, self.memory_size)


class FusedBackend(AbstractBackend):
    """The C++ kernel, with `threads` that share the batch.

    Python threads that share a backend take turns: a gradient belongs to the forward before it.
    """

    name = "fused"

    def __init__(
        self,
        kind: LossKind,
        regularisation: Regularisation | None,
        memory_size: int,
        threads: int = 1,
        reason: str = "as asked for",
    ):
        super().__init__(kind, regularisation, memory_size)
        self.reason = reason
        self._unroll = fused.FusedUnroll(threads)
        self._alone = threading.Lock()

    def value_and_grad(
        self, model: DNC, batch: Any
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]], DNC]:
        with self._alone:
            run = self._unroll.forward(model, batch.inputs, self.memory_size, keep=True)
            (loss, parts), cotangents = _loss_and_cotangents(
                run.outputs, run.cell_states, _Answers.of(batch), self.kind, self.regularisation
            )
            return loss, parts, self._unroll.backward(run, *cotangents)

    def forward(
        self, model: DNC, inputs: Any, memory_size: int | Growing | None = None
    ) -> Unrolled:
        size = self.memory_size if memory_size is None else memory_size
        with self._alone:
            run = self._unroll.forward(model, inputs, size)
        return Unrolled(jnp.asarray(run.outputs), jnp.asarray(run.cell_states), None)

    def weights(self, model: DNC, inputs: Any) -> tuple[Any, Any]:
        with self._alone:
            run = self._unroll.forward(model, inputs, self.memory_size, weights=True)
        return run.read_weights, run.write_weights


def choose_backend(
    choice: str,
    model: DNC,
    kind: LossKind,
    regularisation: Regularisation | None,
    *,
    memory_size: int,
    threads: int | None = None,
) -> AbstractBackend:
    """The backend for a model: `auto` takes `fused` where possible, and says why where not.

    `threads` is for `fused`; by default it takes all cores this process may use.
    """
    if choice not in BACKEND_CHOICES:
        raise SettingError("backend", choice, one_of(BACKEND_CHOICES))
    obstacle = _obstacle(model)
    if choice == "pure" or (choice == "auto" and obstacle is not None):
        reason = "as asked for" if choice == "pure" else obstacle
        return PureBackend(kind, regularisation, memory_size, reason or "")
    if obstacle is not None:
        raise SettingError("backend", "fused", f"pure, because {obstacle}")
    reason = "as asked for" if choice == "fused" else "a built-in controller on a CPU"
    threads = available_cores() if threads is None else threads
    return FusedBackend(kind, regularisation, memory_size, threads, reason)


def _obstacle(model: DNC) -> str | None:
    """What keeps `fused` from computing this model; None when nothing does."""
    if not fused.supports(model):
        return f"{type(model.controller).__name__} is a controller of your own"
    if model.interface_bias.dtype != np.float32:
        return f"the parameters are {model.interface_bias.dtype}, and fused computes in float32"
    if jax.default_backend() != "cpu":
        return f"JAX computes on a {jax.default_backend()}"
    return fused.missing_reason()


def padded(inputs: Float[AnyArray, "time batch inputs"]) -> Float[Array, "steps batch inputs"]:
    """Inputs with blank steps up to a number of steps for which a program may be compiled."""
    blank = rounded_up(len(inputs)) - len(inputs)
    return jnp.pad(inputs, ((0, blank), (0, 0), (0, 0)))


def rounded_up(steps: int) -> int:
    """The next power of two, or three quarters of it.

    >>> [rounded_up(steps) for steps in (1, 4, 5, 7, 22, 33, 202)]
    [4, 4, 6, 8, 24, 48, 256]
    """
    power = max(4, 1 << (steps - 1).bit_length())
    return power * 3 // 4 if 4 < steps <= power * 3 // 4 else power


class _Answers(NamedTuple):
    """The part of a batch that goes into a compiled loss."""

    targets: Any
    mask: Any
    num_steps: Any

    @staticmethod
    def of(batch: LossTargets) -> _Answers:
        return _Answers(batch.targets, batch.mask, batch.num_steps)


@eqx.filter_jit
def _pure_value_and_grad(
    model: DNC,
    answers: _Answers,
    inputs: Any,
    memory_size: int,
    kind: LossKind,
    regularisation: Regularisation | None,
) -> Any:
    def loss(model: DNC) -> Any:
        unrolled = model.unroll(inputs, memory_size)
        return total_loss(unrolled.outputs, unrolled.cell_states, answers, kind, regularisation)

    with_gradient: Any = eqx.filter_value_and_grad(loss, has_aux=True)
    return with_gradient(model)


@eqx.filter_jit
def _pure_forward(model: DNC, inputs: Any, memory_size: int | Growing) -> Unrolled:
    unrolled = model.unroll(inputs, memory_size)
    return Unrolled(unrolled.outputs, unrolled.cell_states, None)


def _grown(model: DNC, inputs: Any, growing: Growing) -> Unrolled:
    """A run with a growing memory; one that needs more than its limit is refused."""
    try:
        unrolled = _pure_forward(model, inputs, growing)
        unrolled.outputs.block_until_ready()
    except eqx.EquinoxRuntimeError as error:
        raise RunError(growing.refusal) from error
    return Unrolled(unrolled.outputs, unrolled.cell_states, None)


@eqx.filter_jit
def _pure_weights(model: DNC, inputs: Any, memory_size: int) -> tuple[Any, Any]:
    inside = model.unroll(inputs, memory_size, internals=True).internals
    assert inside is not None
    return inside.memory.read_weights, inside.memory.write_weights


@partial(jax.jit, static_argnames=("kind", "regularisation"))
def _loss_and_cotangents(
    outputs: Any,
    cell_states: Any,
    answers: _Answers,
    kind: LossKind,
    regularisation: Regularisation | None,
) -> Any:
    """The loss, its parts and its gradients, None for cell states that it does not see."""

    def loss(outputs: Any, cell_states: Any) -> Any:
        return total_loss(outputs, cell_states, answers, kind, regularisation)

    if regularisation is None:
        found, d_outputs = jax.value_and_grad(loss, has_aux=True)(outputs, cell_states)
        return found, (d_outputs, None)
    return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(outputs, cell_states)


@partial(jax.jit, static_argnames="kind")
def _mean_task_loss(outputs: Any, targets: Any, mask: Any, kind: LossKind) -> Float[Array, ""]:
    return jnp.mean(task_loss(outputs, targets, mask, kind))
