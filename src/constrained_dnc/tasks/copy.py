"""The copy task."""

import numpy as np
from jaxtyping import Int

from constrained_dnc.tasks.numeral import AbstractNumeralTask


class Copy(AbstractNumeralTask):
    """The numerals unchanged.

    >>> Copy().solve((2, 4, 2, 1, 3))
    (2, 4, 2, 1, 3)
    """

    name = "copy"
    summary = "the numerals unchanged"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return numerals
