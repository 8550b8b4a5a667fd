"""Sizes and constants of a DNC; separate from the model, so that reading a config needs no JAX."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from constrained_dnc.errors import (
    LARGEST,
    SMALLEST,
    SettingError,
    bounded,
    check_bounds,
    require_integer,
    require_number,
)

MemorySize: TypeAlias = int | Literal["growing"]
"""The number of memory slots of a trained model, or `growing` for one that grows with its input."""
GROWING: Literal["growing"] = "growing"
BackendChoice: TypeAlias = Literal["auto", "fused", "pure"]
"""The backend: C++ where possible, C++, or JAX."""
BACKEND_CHOICES: tuple[str, ...] = get_args(BackendChoice)
MAX_THREADS = 1024
"""The largest accepted number of threads."""
MOST_SLOTS = 2**24
"""The kernel's limit; the link has an entry for every pair of slots."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and constants of a DNC; the defaults are the paper's."""

    memory_size: int = bounded(50, 1, MOST_SLOTS)
    """Slots of the memory, N, in training; a trained model can run with any number."""
    word_size: int = bounded(16, 1)
    """Entries of one slot, W."""
    num_reads: int = bounded(4, 1)
    """Read heads, R."""
    hidden_size: int = bounded(128, 1)
    """Width of the controller, H."""
    clip_value: float | None = 20.0
    """Controller output and state and the DNC's output are clipped to +- this; None disables it."""
    forget_bias: float = bounded(0.0, -LARGEST)
    """Added to the forget gate of LSTM-type controllers before its sigmoid."""

    def __post_init__(self) -> None:
        if self.clip_value is not None:
            require_number("model.clip_value", self.clip_value, SMALLEST)
        check_bounds(self, "model.")


def require_memory_size(value: object, most: int = MOST_SLOTS) -> None:
    """Refuse what is neither a number of slots nor `growing`."""
    if isinstance(value, str) and value == GROWING:
        return
    try:
        require_integer("memory", value, 1, most)
    except SettingError:
        accepted = f"a number of slots from 1 to {most}, or {GROWING}"
        raise SettingError("memory", value, accepted) from None


def read_memory_size(text: str, most: int = MOST_SLOTS) -> MemorySize:
    """A memory size from text.

    >>> read_memory_size("50"), read_memory_size("growing")
    (50, 'growing')
    """
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    value: object = int(text) if is_number else text
    require_memory_size(value, most)
    return int(text) if is_number else GROWING


def memory_order(memory: str) -> float:
    """The key that sorts memories by size, growing last.

    >>> sorted(["growing", "500", "50"], key=memory_order)
    ['50', '500', 'growing']
    """
    return float("inf") if memory == GROWING else float(memory)


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
