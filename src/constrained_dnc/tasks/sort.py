"""The sort task."""

import numpy as np
from jaxtyping import Int

from constrained_dnc.tasks.numeral import AbstractNumeralTask


class Sort(AbstractNumeralTask):
    """The numerals in ascending order.

    >>> Sort().solve((2, 4, 2, 1, 3))
    (1, 2, 2, 3, 4)
    """

    name = "sort"
    summary = "the numerals in ascending order"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return np.sort(numerals, axis=1)
