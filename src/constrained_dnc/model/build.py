"""From an approach to a DNC with fresh parameters."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax

from constrained_dnc.approaches import Approach
from constrained_dnc.errors import LARGEST, SMALLEST, BadSetting, require_number, require_whole
from constrained_dnc.model.controllers import AbstractController, FeedForward, Lstm, PeepholeLstm
from constrained_dnc.model.dnc import DNC
from constrained_dnc.plugins import load_class
from constrained_dnc.shapes import Array


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and constants of a DNC; the defaults are the paper's."""

    memory_size: int = 50
    """Slots of the memory, N, in training; a trained model runs with any number."""
    word_size: int = 16
    """Entries of one slot, W."""
    num_reads: int = 4
    """Read heads, R."""
    hidden_size: int = 128
    """Width of the controller, H."""
    clip_value: float | None = 20.0
    """Controller output and state and the DNC's output are clipped to +- this; None: not."""
    forget_bias: float = 0.0
    """Added to the forget gate of LSTM-type controllers before its sigmoid."""

    def __post_init__(self) -> None:
        for name in ("memory_size", "word_size", "num_reads", "hidden_size"):
            require_whole(f"model.{name}", getattr(self, name), 1)
        if self.clip_value is not None:
            require_number("model.clip_value", self.clip_value, SMALLEST)
        require_number("model.forget_bias", self.forget_bias, -LARGEST)


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
        raise BadSetting("approach", approach, "an Approach, as get_approach(name) returns it")
    config = config or ModelConfig()
    controller_key, dnc_key = jax.random.split(key)
    chi_size = sizes.input_size + config.num_reads * config.word_size
    return DNC(
        _build_controller(approach, chi_size, config, key=controller_key),
        input_size=sizes.input_size,
        output_size=sizes.output_size,
        word_size=config.word_size,
        num_reads=config.num_reads,
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
        raise BadSetting("approach.controller", approach.controller, accepted) from error
    return kind(chi_size, config.hidden_size, key=key)
