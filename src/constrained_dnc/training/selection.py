"""Selection: three rules that choose the parameters to keep, all applied during training.

unseen: the lowest running mean of the loss at the unseen length, as in the paper.
seen:   the lowest running mean of the loss on training lengths.
score:  the highest running mean of the score at the unseen length, outside loss spikes.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass
from typing import Any

from constrained_dnc.config import SPIKE_FACTOR, SelectionRule
from constrained_dnc.training.metrics import finite_or_none


class Selection:
    """Finds the lowest running mean over the last `window` values.

    Means of incomplete windows count only until the first window is full. The earlier of ties wins.

    >>> selection = Selection(window=2)
    >>> [selection.add(iteration, loss) for iteration, loss in ((10, 1.0), (20, 5.0), (30, 3.0))]
    [True, True, False]
    >>> selection.best_iteration, selection.best_mean
    (20, 3.0)
    """

    def __init__(self, window: int):
        self._values: deque[float] = deque(maxlen=window)
        self._window = window
        self._counts_full_windows = False
        self.best_iteration: int | None = None
        self.best_mean = math.inf

    @property
    def mean(self) -> float | None:
        """The running mean; None before the first value."""
        # fsum is exact, so that the mean depends on the values only, not on a running sum.
        return math.fsum(self._values) / len(self._values) if self._values else None

    def add(self, iteration: int, loss: float) -> bool:
        """Add a loss, where NaN counts as infinite; whether this iteration is the best so far."""
        self._values.append(loss if math.isfinite(loss) else math.inf)
        mean = self.mean
        assert mean is not None
        if not self._counts_full_windows and len(self._values) == self._window:
            self._counts_full_windows = True
            self.best_iteration, self.best_mean = None, math.inf
        is_better = self.best_iteration is None or mean < self.best_mean
        if is_better:
            self.best_iteration, self.best_mean = iteration, mean
        return is_better

    def to_values(self) -> dict[str, Any]:
        """The state as JSON values; None stands for infinity."""
        return {
            "values": [finite_or_none(value) for value in self._values],
            "counts_full_windows": self._counts_full_windows,
            "best_iteration": self.best_iteration,
            "best_mean": finite_or_none(self.best_mean),
        }

    def restore(self, values: dict[str, Any]) -> None:
        """Restore the state that `to_values` returned."""
        self._values.extend(math.inf if value is None else value for value in values["values"])
        self._counts_full_windows = values["counts_full_windows"]
        self.best_iteration = values["best_iteration"]
        self.best_mean = math.inf if values["best_mean"] is None else values["best_mean"]


class SpikeFilteredSelection:
    """Finds the highest running mean of a score over the last `window` measurements.

    Measurements during a loss spike are ignored: those whose training loss exceeds `SPIKE_FACTOR`
    times the median of the last `window` training losses.

    >>> selection = SpikeFilteredSelection(window=3)
    >>> measured = ((10, 0.5, 0.1), (20, 0.9, 0.1), (30, 1.0, 4.0), (40, 0.4, 0.1))
    >>> [selection.add(iteration, score, loss) for iteration, score, loss in measured]
    [True, True, False, True]
    >>> selection.best_iteration, round(selection.best_mean, 6)
    (40, 0.6)
    """

    def __init__(self, window: int):
        self._seen_losses: deque[float] = deque(maxlen=window)
        self._errors = Selection(window)  # 1 - score, so that the lowest mean is the best

    @property
    def best_iteration(self) -> int | None:
        return self._errors.best_iteration

    @property
    def mean(self) -> float | None:
        """The running mean of the score; None before the first value."""
        error = self._errors.mean
        return None if error is None else 1 - error

    @property
    def best_mean(self) -> float:
        """The running mean at the best iteration; minus infinity before the first value."""
        return 1 - self._errors.best_mean

    def add(self, iteration: int, score: float, seen_loss: float) -> bool:
        """Add a measurement; whether this iteration is the best so far."""
        if not math.isfinite(seen_loss):  # the update was skipped
            return False
        self._seen_losses.append(seen_loss)
        if seen_loss > SPIKE_FACTOR * statistics.median(self._seen_losses):
            return False
        return self._errors.add(iteration, 1 - score)

    def to_values(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"seen_losses": list(self._seen_losses), "errors": self._errors.to_values()}

    def restore(self, values: dict[str, Any]) -> None:
        """Restore the state that `to_values` returned."""
        self._seen_losses.extend(values["seen_losses"])
        self._errors.restore(values["errors"])


@dataclass
class RuleProgress:
    """The state of one rule."""

    selection: Selection | SpikeFilteredSelection
    model: Any = None
    """The model of the best iteration; None before the first measurement."""
    stored_iteration: int | None = None
    """The best iteration when this process last wrote the parameters to the run directory."""


def new_rules(window: int) -> dict[SelectionRule, RuleProgress]:
    """All rules before the first measurement."""
    return {
        "unseen": RuleProgress(Selection(window)),
        "seen": RuleProgress(Selection(window)),
        "score": RuleProgress(SpikeFilteredSelection(window)),
    }
