"""From an approach to a DNC with fresh parameters."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp

from constrained_dnc.errors import SettingError
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.constraints import CONSTRAINTS, AbstractConstraint
from constrained_dnc.model.controllers import AbstractController, FeedForward, Lstm
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import LOOKUPS, DNCMemory
from constrained_dnc.model.memory import AbstractMemory, NoMemory
from constrained_dnc.model.ntm_memory import NTMMemory
from constrained_dnc.parts import Approach, Part, refuse_text, refuse_unknown
from constrained_dnc.plugins import load_class, naming_failures
from constrained_dnc.shapes import Array

MEMORIES: dict[str, type[Any]] = {"dnc": DNCMemory, "ntm": NTMMemory, "none": NoMemory}
"""The built-in memories by the names that approaches use."""
T = TypeVar("T")
STEPS, BATCH = 3, 2
"""The size of the states on which the loss of a user-defined constraint is tried out."""


@runtime_checkable
class HasSizes(Protocol):
    """A task, or anything else with an input and an output size."""

    @property
    def input_size(self) -> int: ...

    @property
    def output_size(self) -> int: ...


def build_dnc(
    approach: Approach, sizes: HasSizes, config: ModelConfig | None = None, *, key: Array
) -> DNC:
    """A DNC with fresh parameters.

    Args:
        approach: its controller, constraints and memory.
        sizes: anything with an `input_size` and an `output_size`, usually the task.
        config: all other sizes and constants, by default the paper's.
        key: a JAX key, from which the parameters are drawn.
    """
    if not isinstance(approach, Approach):
        raise SettingError("approach", approach, "an Approach, such as get_approach('compr+reg')")
    config = config or ModelConfig()
    controller_key, dnc_key = jax.random.split(key)
    memory = build_memory(approach.memory, config)
    chi_size = sizes.input_size + memory.read_size
    dnc = DNC(
        _build_controller(approach.controller, chi_size, config, key=controller_key),
        memory,
        tuple(
            _build_constraint(part, config.hidden_size, jax.random.fold_in(key, index))
            for index, part in enumerate(approach.constraints)
        ),
        input_size=sizes.input_size,
        output_size=sizes.output_size,
        clip_value=config.clip_value,
        key=dnc_key,
    )
    _check_parts(approach, dnc)
    return dnc


def _build_controller(
    name: str, chi_size: int, config: ModelConfig, *, key: Array
) -> AbstractController:
    sizes = chi_size, config.hidden_size
    if name == "feed-forward":
        return FeedForward(*sizes, key=key)
    if name in ("lstm", "peephole"):
        bias = config.forget_bias
        return Lstm(*sizes, peephole=name == "peephole", forget_bias=bias, key=key)
    kind = load_class("approach.controller", name, AbstractController)
    call = "Class(input_size, hidden_size, key=key)"
    return _built(f"controller {name}", call, kind, *sizes, key=key)


def _build_constraint(part: Part, hidden_size: int, key: Array) -> AbstractConstraint:
    settings: dict[str, Any] = dict(part.settings)
    if part.kind in CONSTRAINTS:
        return CONSTRAINTS[part.kind](**settings)
    kind = load_class("approach.constraints", part.kind, AbstractConstraint)
    offered = {"hidden_size": hidden_size, "key": key}
    taken = inspect.signature(kind).parameters
    settings = {name: offered[name] for name in offered if name in taken} | settings
    constraint = _built(f"constraint {part}", "Class(**settings)", kind, **settings)
    if not (constraint.changes_state or constraint.has_loss):
        raise SettingError(f"constraint {part} must define carry, loss or both")
    return constraint


def build_memory(part: Part, config: ModelConfig) -> AbstractMemory:
    """The memory of an approach, with the sizes of training."""
    sizes, settings = (config.memory_size, config.word_size, config.num_reads), dict(part.settings)
    if part.kind == "dnc":
        return DNCMemory(*sizes, lookup=LOOKUPS[str(settings["lookup"])])
    if part.kind in MEMORIES:
        return MEMORIES[part.kind](*sizes, **settings)
    kind = load_class("approach.memory", part.kind, AbstractMemory)
    call = "Class(memory_size, word_size, num_reads, **settings)"
    return _built(f"memory {part}", call, kind, *sizes, **settings)


def _built(what: str, call: str, kind: type[T], /, *args: Any, **settings: Any) -> T:
    """An instance of a user-defined class, or an error that shows the call that failed."""
    parameters = inspect.signature(kind).parameters
    if not any(it.kind is it.VAR_KEYWORD for it in parameters.values()):
        refuse_unknown(what, settings, [*parameters][len(args) :])
    try:
        inspect.signature(kind).bind(*args, **settings)
    except TypeError as error:
        raise SettingError(f"{what} cannot be built by {call}: {error}") from error
    refuse_text(what, kind, settings)
    with naming_failures(what):
        return kind(*args, **settings)


def _check_parts(approach: Approach, dnc: DNC) -> None:
    """Refuse user-defined parts that return wrong shapes."""
    cell = dnc.controller.cell_state(dnc.controller.initial_state())
    counts = jnp.full(BATCH, STEPS)
    for part, constraint in zip(approach.constraints, dnc.constraints, strict=True):
        if part.kind not in CONSTRAINTS:
            is_on_reads = constraint.acts_on == "reads"
            one = jnp.zeros(dnc.memory.read_size) if is_on_reads else cell
            states = jnp.zeros((STEPS, BATCH, *one.shape))
            for key, when in ((jax.random.key(0), ""), (None, " with key None, as in evaluation,")):
                what = f"carry of {part}{when}"
                _require_shape(what, one.shape, constraint.carry, one, key)
            if constraint.has_loss:
                _require_shape(f"loss of {part}", (BATCH,), constraint.loss, states, states, counts)
    if approach.memory.kind not in MEMORIES:
        memory, xi = dnc.memory, jnp.zeros(dnc.memory.interface_size)
        read = lambda: memory(xi, memory.initial_state(xi.dtype))[1]  # noqa: E731
        _require_shape(f"reads of {approach.memory}", (memory.read_size,), read)


def _require_shape(what: str, shape: tuple[int, ...], function: Any, *args: Any) -> None:
    with naming_failures(what):
        found = getattr(jax.eval_shape(function, *args), "shape", None)
    if found != shape:
        raise SettingError(f"the {what} must have the shape {shape}, not {found}")
