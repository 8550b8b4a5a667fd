"""From an approach to a DNC with fresh parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from constrained_dnc.errors import SettingError
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.constraints import AbstractConstraint
from constrained_dnc.model.controllers import AbstractController
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.memory import AbstractMemory
from constrained_dnc.parts import (
    CONSTRAINTS,
    CONTROLLER,
    LOOKUP,
    MEMORY,
    PARTS,
    Approach,
    Part,
    find_part,
    parse_part,
    refuse_text,
    refuse_unknown,
)
from constrained_dnc.plugins import naming_failures
from constrained_dnc.shapes import Array

NOUNS = {CONTROLLER: "controller", CONSTRAINTS: "constraint", MEMORY: "memory"}
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
    hidden_size = config.hidden_size
    controller = _make(
        CONTROLLER,
        parse_part(approach.controller, CONTROLLER),
        AbstractController,
        (sizes.input_size + memory.read_size, hidden_size),
        "Class(input_size, hidden_size, key=key)",
        given={"key": controller_key},
        offered={"forget_bias": config.forget_bias},
    )
    dnc = DNC(
        controller,
        memory,
        tuple(
            _build_constraint(part, hidden_size, jax.random.fold_in(key, index))
            for index, part in enumerate(approach.constraints)
        ),
        input_size=sizes.input_size,
        output_size=sizes.output_size,
        clip_value=config.clip_value,
        key=dnc_key,
    )
    _check_parts(approach, dnc)
    return dnc


def _build_constraint(part: Part, hidden_size: int, key: Array) -> AbstractConstraint:
    offered = {"hidden_size": hidden_size, "key": key}
    constraint: AbstractConstraint = _make(
        CONSTRAINTS, part, AbstractConstraint, (), "Class(**settings)", offered=offered
    )
    if not (constraint.changes_state or constraint.has_loss):
        raise SettingError(f"constraint {part} must define carry, loss or both")
    return constraint


def build_memory(part: Part, config: ModelConfig) -> AbstractMemory:
    """The memory of an approach, with the sizes of training."""
    sizes = config.memory_size, config.word_size, config.num_reads
    call = "Class(memory_size, word_size, num_reads, **settings)"
    memory: AbstractMemory = _make(MEMORY, part, AbstractMemory, sizes, call)
    return memory


def _make(
    setting: str,
    part: Part,
    base: type,
    sizes: tuple[int, ...],
    call: str,
    *,
    given: Mapping[str, Any] = MappingProxyType({}),
    offered: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """A part with its settings, those `given` to each, and those `offered` that it takes.

    If a user-defined class cannot be built, the error shows the call that failed.
    """
    make = find_part(setting, part.kind, base)
    parameters = inspect.signature(make).parameters
    taken = {name: offered[name] for name in offered if name in parameters}
    settings: dict[str, Any] = {**given, **taken, **dict(part.settings)}
    if part.kind in PARTS[setting]:
        return make(*sizes, **settings)
    what = f"{NOUNS[setting]} {part}"
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        refuse_unknown(what, settings, [*parameters][len(sizes) :])
    try:
        inspect.signature(make).bind(*sizes, **settings)
    except TypeError as error:
        raise SettingError(f"{what} cannot be built by {call}: {error}") from error
    refuse_text(what, make, settings)
    with naming_failures(what):
        return make(*sizes, **settings)


def _check_parts(approach: Approach, dnc: DNC) -> None:
    """Refuse user-defined parts that return wrong shapes."""
    cell = dnc.controller.cell_state(dnc.controller.initial_state())
    counts = jnp.full(BATCH, STEPS)
    for part, constraint in zip(approach.constraints, dnc.constraints, strict=True):
        if constraint.acts_on == "states" and not cell.size:
            controller = f"the {approach.controller} controller"
            raise SettingError(f"{controller} has no state to constrain by {part.kind}")
        if part.kind not in PARTS[CONSTRAINTS]:
            is_on_reads = constraint.acts_on == "reads"
            one = jnp.zeros(dnc.memory.read_size) if is_on_reads else cell
            states = jnp.zeros((STEPS, BATCH, *one.shape))
            for key, when in ((jax.random.key(0), ""), (None, " with key None, as in evaluation,")):
                what = f"carry of {part}{when}"
                _require_shape(what, one.shape, constraint.carry, one, key)
            if constraint.has_loss:
                _require_shape(f"loss of {part}", (BATCH,), constraint.loss, states, states, counts)
    if approach.memory.kind == "dnc":
        _check_lookups(approach.memory, dnc.memory)
    if approach.memory.kind not in PARTS[MEMORY]:
        memory, xi = dnc.memory, jnp.zeros(dnc.memory.interface_size)
        read = lambda: memory(xi, memory.initial_state(xi.dtype))[1]  # noqa: E731
        _require_shape(f"reads of {approach.memory}", (memory.read_size,), read)


def _check_lookups(part: Part, memory: Any) -> None:
    """Refuse user-defined look-ups that return wrong shapes."""
    settings, slots, word = dict(part.settings), memory.size, memory.word_size
    for setting, heads in (("read_lookup", memory.num_reads), ("write_lookup", 1)):
        path = settings.get(setting, settings["lookup"])
        if path not in PARTS[LOOKUP]:
            zeros = (jnp.zeros(shape) for shape in ((slots, word), (heads, word), heads, slots))
            lookup, args, shape = getattr(memory, setting), [*zeros], (heads, slots)
            for exists in (None, jnp.ones(slots, bool)):
                _require_shape(f"weights of the look-up {path}", shape, lookup, *args, exists)


def _require_shape(what: str, shape: tuple[int, ...], function: Any, *args: Any) -> None:
    with naming_failures(what):
        found = getattr(jax.eval_shape(function, *args), "shape", None)
    if found != shape:
        raise SettingError(f"the {what} must have the shape {shape}, not {found}")
