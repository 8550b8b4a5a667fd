"""Observers of training: by default the log, on the command line a progress display."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

logger = logging.getLogger("constrained_dnc")


@dataclass(frozen=True)
class Snapshot:
    """The progress after an iteration."""

    iteration: int
    iterations: int
    loss: float
    running_unseen_loss: float | None
    best_iteration: int | None
    skipped_updates: int


class Observer:
    """Receives messages, metrics and progress; subclass it for a logger or a display."""

    def say(self, sentence: str) -> None:
        """Called with messages."""
        logger.info(sentence)

    def warn(self, sentence: str) -> None:
        """Called with warnings."""
        logger.warning(sentence)

    def log(self, iteration: int, values: Mapping[str, float | int | None]) -> None:
        """Called with every line that goes to metrics.jsonl."""

    def progress(self, snapshot: Snapshot) -> None:
        """Called after every iteration."""
