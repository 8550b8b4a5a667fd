"""From an approach to a DNC with fresh parameters."""

from __future__ import annotations

import inspect
from typing import Protocol, runtime_checkable

import jax

from constrained_dnc.approaches import Approach, Part
from constrained_dnc.errors import SettingError
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.constraints import CONSTRAINTS, AbstractConstraint
from constrained_dnc.model.controllers import AbstractController, FeedForward, Lstm
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.memory import LOOKUPS, DNCMemory
from constrained_dnc.plugins import load_class
from constrained_dnc.shapes import Array


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
    """A DNC for `approach` with fresh parameters; `sizes` is usually the task."""
    if not isinstance(approach, Approach):
        raise SettingError("approach", approach, "an Approach, such as get_approach('compr+reg')")
    config = config or ModelConfig()
    controller_key, dnc_key = jax.random.split(key)
    chi_size = sizes.input_size + config.num_reads * config.word_size
    return DNC(
        _build_controller(approach, chi_size, config, key=controller_key),
        DNCMemory(config.memory_size, config.word_size, config.num_reads, LOOKUPS[approach.lookup]),
        tuple(map(_build_constraint, approach.constraints)),
        input_size=sizes.input_size,
        output_size=sizes.output_size,
        clip_value=config.clip_value,
        key=dnc_key,
    )


def _build_controller(
    approach: Approach, chi_size: int, config: ModelConfig, *, key: Array
) -> AbstractController:
    name, hidden_size = approach.controller, config.hidden_size
    if name == "feed-forward":
        return FeedForward(chi_size, hidden_size, key=key)
    if name in ("lstm", "peephole"):
        bias, peephole = config.forget_bias, name == "peephole"
        return Lstm(chi_size, hidden_size, peephole=peephole, forget_bias=bias, key=key)
    kind = load_class("approach.controller", name, AbstractController)
    try:
        inspect.signature(kind).bind(chi_size, hidden_size, key=key)
    except TypeError as error:
        call = "Class(input_size, hidden_size, key=key)"
        raise SettingError(f"controller {name} cannot be built by {call}: {error}") from error
    controller: AbstractController = kind(chi_size, hidden_size, key=key)
    return controller


def _build_constraint(part: Part) -> AbstractConstraint:
    settings = dict(part.settings)
    if part.kind in CONSTRAINTS:
        return CONSTRAINTS[part.kind](**settings)
    kind = load_class("approach.constraints", part.kind, AbstractConstraint)
    try:
        inspect.signature(kind).bind(**settings)
    except TypeError as error:
        raise SettingError(
            f"constraint {part} cannot be built from its settings: {error}"
        ) from error
    constraint: AbstractConstraint = kind(**settings)
    return constraint
