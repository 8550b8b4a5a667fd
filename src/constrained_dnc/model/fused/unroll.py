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
from constrained_dnc.model.controllers import FeedForward, Lstm, PeepholeLstm
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing

_why_missing: str | None = None
try:
    import constrained_dnc.model.fused._kernel as _kernel  # noqa: PLR0402 (absent or broken?)
except ModuleNotFoundError:
    _why_missing = (
        "the kernel was not compiled when the package was installed, as without a C++17 compiler"
    )
except ImportError as error:
    _why_missing = f"the compiled kernel cannot be loaded: {error}"

_NAMES = {Lstm: "lstm", PeepholeLstm: "peephole", FeedForward: "feed_forward"}


def missing_reason() -> str | None:
    """Why the compiled kernel cannot be used here, in one sentence; None when it can."""
    return _why_missing


def simd_levels() -> list[str]:
    """The instruction sets the kernel can use on this machine, best first."""
    return [] if _why_missing else _kernel.simd_levels()


class Forward(NamedTuple):
    """What a forward returns; the weights only when asked for, the slots of a growing memory."""

    outputs: Float[np.ndarray, "time batch outputs"]
    cell_states: Float[np.ndarray, "time batch cell"]
    read_weights: Float[np.ndarray, "time batch reads slots"] | None
    write_weights: Float[np.ndarray, "time batch slots"] | None
    slots: Int[np.ndarray, "time batch"] | None
    number: int  # of the forward, for its backward
    by: object  # the kernel that ran it
    kept: DNC | None  # the model, when its gradient may be asked for


class FusedUnroll:
    """Runs DNCs of any size in a workspace that is kept between calls; one per thread.

    `threads` share the batch. For a fixed number of them every result is the same bit for bit.
    """

    def __init__(self, threads: int = 1, simd: str | None = None):
        require_integer("threads", threads, 1, MAX_THREADS)
        if _why_missing:
            raise SettingError("backend", "fused", f"pure ({_why_missing})")
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
        memory_size: int | Growing | None = None,
        *,
        keep: bool = False,
        weights: bool = False,
    ) -> Forward:
        """Run a batch of sequences from empty memories.

        `keep` keeps what `backward` needs; `weights` also returns read and write weights.
        """
        refuse_traced(inputs, dnc)
        growing = memory_size if isinstance(memory_size, Growing) else None
        size = dnc.memory_size if memory_size is None else memory_size
        size = size.start if isinstance(size, Growing) else size
        dnc.check_run(inputs, size)
        settings = _settings(dnc)
        parameters = {name: np.asarray(leaf) for name, leaf in _named_leaves(dnc)}
        values = np.ascontiguousarray(inputs, np.float32)
        growth = _kernel.Growing(growing.free_capacity, growing.limit) if growing else None
        with _refusals():
            found = self._kernel.forward(
                settings, parameters, values, int(size), keep, weights, growth
            )
        run = Forward(*found, self._kernel, dnc if keep else None)
        if growing is not None and run.slots is not None and run.slots.max() > growing.limit:
            raise RunError(growing.refusal)
        return run

    def backward(
        self,
        run: Forward,
        output_cotangents: Any,  # (time, batch, outputs), checked by the kernel
        cell_cotangents: Any,  # (time, batch, cell), or None for a loss that does not see them
    ) -> DNC:
        """The gradient of every parameter, as a DNC of NumPy arrays; once for a kept `run`.

        Refused when this kernel has run forward since, in whatever thread, or another one has run
        it.
        """
        refuse_traced(output_cotangents, cell_cotangents)
        if run.by is not self._kernel:
            raise SettingError(
                "run", f"forward {run.number} of another kernel", "one of this kernel"
            )
        with _refusals():
            gradients = self._kernel.backward(
                run.number,
                np.ascontiguousarray(output_cotangents),
                None if cell_cotangents is None else np.ascontiguousarray(cell_cotangents),
            )
        assert run.kept is not None  # the kernel has refused otherwise
        leaves = [gradients[name] for name, _ in _named_leaves(run.kept)]
        return jax.tree.unflatten(jax.tree.structure(run.kept), leaves)


@contextmanager
def _refusals() -> Iterator[None]:
    """What the kernel refuses, as one sentence that names the way out."""
    try:
        yield
    except ValueError as error:
        raise SettingError("backend", "fused", f"pure, or what fused can do: {error}") from error


def refuse_traced(*trees: Any) -> None:
    """The kernel needs numbers; inside jit, grad and vmap there are none yet."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees)):
        raise SettingError("backend", "fused", "pure, inside jit, grad and vmap")


def supports(dnc: DNC) -> bool:
    """Whether the kernel knows the controller of `dnc`."""
    return type(dnc.controller) in _NAMES


def _settings(dnc: DNC) -> _kernel.Settings:
    controller = dnc.controller
    if not supports(dnc):
        raise SettingError("backend", "fused", "pure, for a controller of your own")
    return _kernel.Settings(
        _NAMES[type(controller)],
        dnc.word_size,
        dnc.num_reads,
        getattr(controller, "compression", False),
        getattr(controller, "forget_bias", 0.0),
        dnc.clip_value,
        dnc.lookup == "used-slots",
    )


def _named_leaves(dnc: DNC) -> list[tuple[str, Any]]:
    paths, _ = jax.tree.flatten_with_path(dnc)
    return [(path[-1].name, leaf) for path, leaf in paths]
