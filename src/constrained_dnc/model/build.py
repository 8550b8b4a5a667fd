"""From an approach to a DNC with fresh parameters."""

from __future__ import annotations

import inspect
from typing import Protocol, runtime_checkable

import jax

from constrained_dnc.approaches import Approach
from constrained_dnc.errors import SettingError
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.controllers import AbstractController, FeedForward, Lstm, PeepholeLstm
from constrained_dnc.model.dnc import DNC
from constrained_dnc.plugins import load_class
from constrained_dnc.shapes import Array


@runtime_checkable
class HasSizes(Protocol):
    """Anything that says how wide inputs and outputs are: a task, usually."""

    @property
    def input_size(self) -> int: ...

    @property
    def output_size(self) -> int: ...


def build_dnc(
    approach: Approach, sizes: HasSizes, config: ModelConfig | None = None, *, key: Array
) -> DNC:
    """A DNC for `approach` with fresh parameters, as wide as the task `sizes` needs it."""
    if not isinstance(approach, Approach):
        raise SettingError("approach", approach, "an Approach, as get_approach(name) returns it")
    if isinstance(sizes, type) or not isinstance(sizes, HasSizes):
        accepted = "a task, as get_task(name) returns it, or what has an input and an output_size"
        raise SettingError("sizes", sizes, accepted)
    config = config or ModelConfig()
    controller_key, dnc_key = jax.random.split(key)
    chi_size = sizes.input_size + config.num_reads * config.word_size
    return DNC(
        _build_controller(approach, chi_size, config, key=controller_key),
        input_size=sizes.input_size,
        output_size=sizes.output_size,
        word_size=config.word_size,
        num_reads=config.num_reads,
        memory_size=config.memory_size,
        clip_value=config.clip_value,
        lookup=approach.lookup,
        key=dnc_key,
    )


def _build_controller(
    approach: Approach, chi_size: int, config: ModelConfig, *, key: Array
) -> AbstractController:
    if approach.controller == "feed-forward":
        return FeedForward(chi_size, config.hidden_size, key=key)
    if approach.controller in ("lstm", "peephole"):
        kind = Lstm if approach.controller == "lstm" else PeepholeLstm
        return kind(
            chi_size,
            config.hidden_size,
            compression=approach.compression,
            forget_bias=config.forget_bias,
            key=key,
        )
    kind = load_class("approach.controller", approach.controller, AbstractController)
    try:
        inspect.signature(kind).bind(chi_size, config.hidden_size, key=key)
    except TypeError as error:
        accepted = f"a class made by Class(input_size, hidden_size, key=key) ({error})"
        raise SettingError("approach.controller", approach.controller, accepted) from error
    return kind(chi_size, config.hidden_size, key=key)
