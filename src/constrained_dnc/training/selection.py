"""Selection: the iteration with the lowest running mean of a loss."""

from __future__ import annotations

import math
from collections import deque
from typing import Any


class Selection:
    """Follows the running mean over the last `window` values.

    Only full windows count; as long as there is none, the mean of what there is. Of equal means
    the earlier wins.

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
        """Take in one loss; whether this iteration is the best so far.

        A loss that is not finite counts as infinite.
        """
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
        """Everything, as JSON values; None stands for infinity."""
        return {
            "values": [_finite_or_none(value) for value in self._values],
            "counts_full_windows": self._counts_full_windows,
            "best_iteration": self.best_iteration,
            "best_mean": _finite_or_none(self.best_mean),
        }

    @staticmethod
    def from_values(values: dict[str, Any], window: int) -> Selection:
        """The selection that `to_values` described."""
        selection = Selection(window)
        selection._values.extend(math.inf if value is None else value for value in values["values"])
        selection._counts_full_windows = values["counts_full_windows"]
        selection.best_iteration = values["best_iteration"]
        best = values["best_mean"]
        selection.best_mean = math.inf if best is None else best
        return selection


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
