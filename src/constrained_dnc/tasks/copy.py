"""The copy task."""

import numpy as np
from jaxtyping import Int

from constrained_dnc.tasks.numeral import AbstractNumeralTask


class Copy(AbstractNumeralTask):
    """The numerals in their order.

    >>> Copy().solve((2, 4, 2, 1, 3))
    (2, 4, 2, 1, 3)
    """

    name = "copy"
    summary = "the numerals as they came"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return numerals
