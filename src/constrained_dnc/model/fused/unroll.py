"""From a DNC to the arrays of the kernel and back; no maths here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from constrained_dnc.errors import RunError, SettingError, require_integer
from constrained_dnc.model.addressing import content_weights, content_weights_of_used_slots
from constrained_dnc.model.config import MAX_THREADS
from constrained_dnc.model.constraints import Compression, Noise, Rounding, Snapping
from constrained_dnc.model.controllers import FeedForward, Lstm, LstmState
from constrained_dnc.model.dnc import DNC, DNCState
from constrained_dnc.model.dnc_memory import DNCMemory, MemoryState
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.leaves import named_leaves
from constrained_dnc.model.memory import AbstractMemory

_why_missing: str | None = None
try:
    import constrained_dnc.model.fused._kernel as _kernel  # noqa: PLR0402 (absent or broken?)
except ModuleNotFoundError:
    _why_missing = (
        "the kernel was not compiled when the package was installed; it needs a C++17 compiler"
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
    """A forward pass; weights and state if requested, slots only for a growing memory."""

    outputs: Float[np.ndarray, "time batch outputs"]
    cell_states: Float[np.ndarray, "time batch cell"]
    read_weights: Float[np.ndarray, "time batch reads slots"] | None
    write_weights: Float[np.ndarray, "time batch slots"] | None
    slots: Int[np.ndarray, "time batch"] | None
    state: DNCState | None  # after the last step
    call_id: int  # for the backward pass
    kernel: object  # that ran it
    structure: Any  # of the model, for the gradient


class FusedUnroll:
    """Runs DNCs of any size in a workspace that is kept between calls; one per thread.

    `threads` share the batch. With a fixed number of them, results are reproducible bit for bit.
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
        state: DNCState | None = None,
        key: Array | None = None,
        keep: bool = False,
        weights: bool = False,
        end: bool = False,
    ) -> Forward:
        """Run a batch of sequences from empty memories, or continue from the `state` of a run.

        `key` switches noise on. `keep` keeps what `backward` needs; `weights` also returns read and
        write weights, `end` the state after the last step.
        """
        leaves, structure = jax.tree.flatten(dnc)
        refuse_traced(inputs, leaves, state)
        dnc.check_inputs(inputs)
        if any(leaf.dtype != np.float32 for leaf in leaves):
            _refuse_unsupported(dnc)
        settings, names = _plan(structure)
        parameters = {
            name: np.asarray(leaf) for name, leaf in zip(names, leaves, strict=True) if name
        }
        values = np.ascontiguousarray(inputs, np.float32)
        if state is not None:
            dnc.check_state(state, values.shape[1])
        start = None if state is None else _state_arrays(state)
        changes = _changes(dnc, values.shape[:2], key)
        size = dnc.memory.size
        slots, limit = (size.start, size.limit) if isinstance(size, Growing) else (size, None)
        with _refusals():
            arrays = self._kernel.forward(
                settings, parameters, values, slots, changes, keep, weights, limit, start, end
            )
        outputs, cells, reads, writes, counts, last, call_id = arrays
        after = None if last is None else _dnc_state(last)
        kept = structure if keep else None
        run = Forward(outputs, cells, reads, writes, counts, after, call_id, self._kernel, kept)
        if isinstance(size, Growing) and run.slots is not None and run.slots.max() > size.limit:
            raise RunError(size.refusal)
        return run

    def backward(
        self,
        run: Forward,
        output_cotangents: Any,  # (time, batch, outputs), checked by the kernel
        cell_cotangents: Any,  # (time, batch, cell), or None for a loss that does not see them
    ) -> DNC:
        """The gradient of every parameter, as a DNC of NumPy arrays, after a forward with `keep`.

        The arrays of constraints are None: their losses are not the kernel's.

        It can be called once, and only for this kernel's latest forward pass, in any thread.
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
        names = _plan(run.structure)[1]
        leaves = [gradients[name] if name else None for name in names]
        return jax.tree.unflatten(run.structure, leaves)


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


def _unsupported_memory(memory: AbstractMemory) -> str | None:
    if type(memory) is not DNCMemory:
        return f"fused has no memory {type(memory).__name__}"
    lookups = {memory.read_lookup, memory.write_lookup}
    if user_defined := lookups - {content_weights, content_weights_of_used_slots}:
        return f"{user_defined.pop().__name__} is a user-defined look-up"
    return "fused has one look-up for reads and writes" if len(lookups) > 1 else None


def _unsupported_part(dnc: DNC) -> str | None:
    controller, memory = dnc.controller, dnc.memory
    if type(controller) not in (Lstm, FeedForward):
        return f"{type(controller).__name__} is a user-defined controller"
    if reason := _unsupported_memory(memory):
        return reason
    if type(controller) is FeedForward and dnc.changes_state:
        return "a feed-forward controller has no state to constrain"
    for constraint in dnc.constraints:  # losses are computed in JAX
        kind = type(constraint)
        on_reads, supported = (
            constraint.acts_on == "reads",
            (Compression, Noise, Rounding, Snapping),
        )
        if on_reads or (constraint.changes_state and kind not in supported):
            what = "reads" if on_reads else "cell state"
            return f"fused has no constraint {kind.__name__} on the {what}"
    for name, leaf in named_leaves(dnc):
        if leaf.dtype != np.float32:
            return f"{name} is {leaf.dtype}, and fused computes in float32"
    return None


def unsupported_reason(dnc: DNC) -> str | None:
    """Why training with the kernel cannot compute this model; None if it can."""
    if reason := _unsupported_part(dnc):
        return reason
    cell = dnc.controller.cell_state(dnc.controller.initial_state())
    states, counts = jnp.zeros((2, 1, *cell.shape), cell.dtype), jnp.full(1, 2)
    for constraint in dnc.constraints:
        if constraint.has_loss:
            jaxpr = jax.make_jaxpr(constraint.loss)(states, states, counts).jaxpr
            used = [*jaxpr.outvars, *(value for line in jaxpr.eqns for value in line.invars)]
            if any(variable is jaxpr.invars[0] for variable in used):
                return f"fused does not return the states before {type(constraint).__name__}"
    return None


def _refuse_unsupported(dnc: DNC) -> None:
    if reason := _unsupported_part(dnc):
        raise SettingError(f"fused cannot run this model: {reason}")


@lru_cache
def _plan(structure: Any) -> tuple[_kernel.Settings, list[str | None]]:
    """The settings of all models of this structure, and the kernel's names for their leaves.

    The arrays of constraints are not parameters of the kernel: their name is None.
    """
    dnc = jax.tree.unflatten(structure, [np.zeros(0, np.float32)] * structure.num_leaves)
    _refuse_unsupported(dnc)
    controller, memory = dnc.controller, dnc.memory
    name, forget_bias = "feed_forward", 0.0
    if isinstance(controller, Lstm):
        name = "peephole" if controller.peephole else "lstm"
        forget_bias = controller.forget_bias
    settings = _kernel.Settings(
        name,
        memory.word_size,
        memory.num_reads,
        forget_bias,
        dnc.clip_value,
        memory.read_lookup is content_weights_of_used_slots,
        memory.writes,
    )
    paths = (path for path, _ in named_leaves(dnc))
    names = [None if path.startswith("constraints.") else path.rpartition(".")[2] for path in paths]
    return settings, names


def _changes(dnc: DNC, steps: tuple[int, ...], key: Array | None) -> list[tuple[str, object]]:
    """What the constraints do to the cell state, in order."""
    changes: list[tuple[str, object]] = []
    for index, constraint in enumerate(dnc.constraints):
        match constraint:
            case Compression():
                changes.append(("compression", None))
            case Noise(sigma=sigma) if key is not None:
                shape = (*steps, dnc.controller.hidden_size)
                changes.append(("noise", np.asarray(_noise(key, shape, index, sigma))))
            case Rounding(levels=levels):
                changes.append(("rounding", levels))
            case Snapping(states=states):
                changes.append(("snapping", np.ascontiguousarray(states)))
    return changes


@partial(jax.jit, static_argnames=("shape", "index", "sigma"))
def _noise(
    key: Array, shape: tuple[int, int, int], index: int, sigma: float
) -> Float[Array, "time batch cell"]:
    """The noise that the constraint with this index adds at every step, as in `DNC.unroll`."""
    time, batch, cell = shape

    def draw(key: Array) -> Float[Array, "cell"]:
        return sigma * jax.random.normal(jax.random.fold_in(key, index), (cell,), jnp.float32)

    steps = jax.random.split(key, time)
    samples = jax.vmap(lambda step: jax.random.split(step, batch))(steps)
    return jax.vmap(jax.vmap(draw))(samples)


def _state_arrays(state: DNCState) -> dict[str, Float[np.ndarray, "batch ..."]]:
    """The arrays of a state by the kernel's names."""
    controller = vars(state.controller) if isinstance(state.controller, LstmState) else {}
    arrays = {**controller, **vars(state.memory), "reads": state.reads}
    return {
        name: np.ascontiguousarray(array, np.float32)
        for name, array in arrays.items()
        if array is not None
    }


def _dnc_state(arrays: dict[str, Float[np.ndarray, "batch ..."]]) -> DNCState:
    """A state from arrays by the kernel's names."""
    values = {name: jnp.asarray(array) for name, array in arrays.items()}
    reads, cell, hidden = values.pop("reads"), values.pop("cell", None), values.pop("hidden", None)
    controller = () if cell is None else LstmState(cell, hidden)
    return DNCState(controller, MemoryState(**values), reads)
