"""Choices that several layers share."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

BackendChoice: TypeAlias = Literal["auto", "fused", "pure"]
"""The backend: C++ where possible, C++, or JAX."""
BACKEND_CHOICES: tuple[str, ...] = get_args(BackendChoice)

Loss: TypeAlias = Literal["squared error", "cross-entropy"]
"""What a task minimises."""
LOSSES: tuple[str, ...] = get_args(Loss)

SelectionRule: TypeAlias = Literal["unseen", "seen", "score"]
"""How parameters are selected: by the loss at the unseen length, as in the paper, by the loss at
training lengths, or by the score at the unseen length."""
RULES: tuple[SelectionRule, ...] = get_args(SelectionRule)
PAPER_RULE: SelectionRule = "unseen"

Inference: TypeAlias = Literal["network", "digital"]
"""How a model runs: as trained, or with hard writes and snapped states."""
INFERENCES: tuple[Inference, ...] = get_args(Inference)

EXTENSION = 10
"""How many times larger the extended memory is."""


def extended(trained: int) -> int:
    """The size of the extended memory."""
    return EXTENSION * trained
