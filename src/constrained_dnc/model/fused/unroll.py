"""From a DNC to the arrays of the kernel and back; no maths here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.cores import MAX_THREADS
from constrained_dnc.errors import RunError, SettingError, require_integer
from constrained_dnc.model.constraints import AbstractConstraint, Compression
from constrained_dnc.model.controllers import FeedForward, Lstm
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import LOOKUPS, DNCMemory
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.leaves import named_leaves

_why_missing: str | None = None
try:
    import constrained_dnc.model.fused._kernel as _kernel  # noqa: PLR0402 (absent or broken?)
except ModuleNotFoundError:
    _why_missing = (
        "the kernel was not compiled when the package was installed, as without a C++17 compiler"
    )
except ImportError as error:
    _why_missing = f"the compiled kernel cannot be loaded: {error}"


def missing_reason() -> str | None:
    """Why the compiled kernel cannot be used here; None if it can."""
    return _why_missing


def simd_levels() -> list[str]:
    """The instruction sets the kernel can use on this machine, best first."""
    return [] if _why_missing else _kernel.simd_levels()


class Forward(NamedTuple):
    """The result of a forward; weights only if requested, slots only for a growing memory."""

    outputs: Float[np.ndarray, "time batch outputs"]
    cell_states: Float[np.ndarray, "time batch cell"]
    read_weights: Float[np.ndarray, "time batch reads slots"] | None
    write_weights: Float[np.ndarray, "time batch slots"] | None
    slots: Int[np.ndarray, "time batch"] | None
    call_id: int  # of the forward, for its backward
    kernel: object  # that ran it
    model: DNC | None  # if its gradient may be needed


class FusedUnroll:
    """Runs DNCs of any size in a workspace that is kept between calls; one per thread.

    `threads` share the batch. For a fixed number of them all results repeat bit for bit.
    """

    def __init__(self, threads: int = 1, simd: str | None = None):
        require_integer("threads", threads, 1, MAX_THREADS)
        if _why_missing:
            raise SettingError(f"fused cannot be used: {_why_missing}")
        with _refusals():
            self._kernel = _kernel.Kernel(threads, simd)

    @property
    def simd(self) -> str:
        """The instruction set in use."""
        return self._kernel.simd

    @property
    def workspace_bytes(self) -> int:
        """Memory held for the next call."""
        return self._kernel.workspace_bytes

    def forward(
        self,
        dnc: DNC,
        inputs: Float[Any, "time batch inputs"],
        *,
        keep: bool = False,
        weights: bool = False,
    ) -> Forward:
        """Run a batch of sequences from empty memories.

        `keep` keeps what `backward` needs; `weights` also returns read and write weights.
        """
        refuse_traced(inputs, dnc)
        dnc.check_inputs(inputs)
        settings = _settings(dnc)
        parameters = {name: np.asarray(leaf) for name, leaf in _parameters(dnc)}
        values = np.ascontiguousarray(inputs, np.float32)
        size, growth = dnc.memory.size, None
        if isinstance(size, Growing):
            growth = _kernel.Growing(size.free_capacity, size.limit)
        slots = size.start if isinstance(size, Growing) else int(size)
        with _refusals():
            arrays = self._kernel.forward(
                settings, parameters, values, slots, keep, weights, growth
            )
        run = Forward(*arrays, self._kernel, dnc if keep else None)
        if isinstance(size, Growing) and run.slots is not None and run.slots.max() > size.limit:
            raise RunError(size.refusal)
        return run

    def backward(
        self,
        run: Forward,
        output_cotangents: Any,  # (time, batch, outputs), checked by the kernel
        cell_cotangents: Any,  # (time, batch, cell), or None for a loss that does not see them
    ) -> DNC:
        """The gradient of every parameter, as a DNC of NumPy arrays; once for a kept `run`.

        Refused if another kernel ran it, or if this kernel has run forward since, in any thread.
        """
        refuse_traced(output_cotangents, cell_cotangents)
        if run.kernel is not self._kernel:
            raise SettingError("backward needs a forward of this FusedUnroll")
        with _refusals():
            gradients = self._kernel.backward(
                run.call_id,
                np.ascontiguousarray(output_cotangents),
                None if cell_cotangents is None else np.ascontiguousarray(cell_cotangents),
            )
        assert run.model is not None  # the kernel has refused otherwise
        leaves = [gradients[name] for name, _ in _parameters(run.model)]
        return jax.tree.unflatten(jax.tree.structure(run.model), leaves)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what the kernel refuses into a SettingError."""
    try:
        yield
    except ValueError as error:
        raise SettingError(f"fused cannot compute this: {error}") from error


def refuse_traced(*trees: Any) -> None:
    """Refuse tracers: inside jit, grad and vmap there are no numbers for the kernel yet."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees)):
        raise SettingError("fused cannot be used inside jit, grad and vmap; pure can")


def unsupported_reason(dnc: DNC) -> str | None:
    """Why the kernel cannot compute this model; None if it can."""
    controller, memory = dnc.controller, dnc.memory
    if type(controller) not in (Lstm, FeedForward):
        return f"{type(controller).__name__} is a user-defined controller"
    if type(memory) is not DNCMemory or memory.lookup not in LOOKUPS.values():
        return f"fused has no memory {type(memory).__name__}"
    if memory.writes != "soft":
        return "fused has no one-hot writes"
    for constraint in dnc.constraints:
        if not _is_supported(constraint):
            name = type(constraint).__name__
            return f"fused has no constraint {name} on the cell state"
    for name, leaf in named_leaves(dnc):
        if leaf.dtype != np.float32:
            return f"{name} is {leaf.dtype}, and fused computes in float32"
    return None


def _is_supported(constraint: AbstractConstraint) -> bool:
    """Whether it is compression or only a loss without parameters: losses are computed in JAX."""
    is_loss = not constraint.changes_state and not jax.tree.leaves(constraint)
    return type(constraint) is Compression or is_loss


def _settings(dnc: DNC) -> _kernel.Settings:
    controller, memory = dnc.controller, dnc.memory
    if reason := unsupported_reason(dnc):
        raise SettingError(f"fused cannot run this model: {reason}")
    assert isinstance(memory, DNCMemory)
    name, forget_bias = "feed_forward", 0.0
    if isinstance(controller, Lstm):
        name = "peephole" if controller.peephole else "lstm"
        forget_bias = controller.forget_bias
    return _kernel.Settings(
        name,
        memory.word_size,
        memory.num_reads,
        any(type(constraint) is Compression for constraint in dnc.constraints),
        forget_bias,
        dnc.clip_value,
        memory.lookup is LOOKUPS["used-slots"],
    )


def _parameters(dnc: DNC) -> list[tuple[str, Any]]:
    """The arrays of the model by the names that the kernel has for them."""
    return [(name.rpartition(".")[2], leaf) for name, leaf in named_leaves(dnc)]
