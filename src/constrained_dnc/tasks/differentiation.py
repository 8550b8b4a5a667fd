"""The differentiation task."""

import numpy as np
from jaxtyping import Int

from constrained_dnc.tasks.numeral import AbstractNumeralTask


class Differentiation(AbstractNumeralTask):
    """Absolute differences of successive numerals, then a constant 0 to fill the length.

    >>> Differentiation().solve((2, 4, 2, 1, 3))
    (2, 2, 1, 2, 0)
    """

    name = "differentiation"
    summary = "absolute differences of successive numerals, then a 0"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return np.abs(np.diff(numerals, axis=1, append=numerals[:, -1:]))
