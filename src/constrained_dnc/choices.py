"""Choices that several layers use, each spelt out here and nowhere else."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

BackendChoice: TypeAlias = Literal["auto", "fused", "pure"]
"""What computes: C++ where possible, C++, or JAX."""
BACKEND_CHOICES: tuple[str, ...] = get_args(BackendChoice)

Loss: TypeAlias = Literal["squared error", "cross-entropy"]
"""What a task minimises."""
LOSSES: tuple[str, ...] = get_args(Loss)

SelectionRule: TypeAlias = Literal["unseen", "seen", "score"]
"""How parameters are selected: by the loss at the unseen length, as in the paper, by that at seen
lengths, or by the score at the unseen length."""
RULES: tuple[SelectionRule, ...] = get_args(SelectionRule)
PAPER_RULE: SelectionRule = "unseen"

Memory: TypeAlias = Literal["trained", "extended", "growing"]
"""The slots of training, ten times as many, or as many as an input needs."""
MEMORIES: tuple[Memory, ...] = get_args(Memory)
EXTENSION = 10
"""How many times larger the extended memory is."""


def extended(trained: int) -> int:
    """The size of the extended memory."""
    return EXTENSION * trained


def memory_names(trained: int, larger: int | None = None) -> dict[Memory, str]:
    """What tables and legends call each kind of memory, from the slots of training.

    >>> memory_names(50)
    {'trained': '50 slots (training)', 'extended': '500 slots', 'growing': 'growing'}
    """
    return {
        "trained": f"{trained} slots (training)",
        "extended": f"{larger or extended(trained)} slots",
        "growing": "growing",
    }
