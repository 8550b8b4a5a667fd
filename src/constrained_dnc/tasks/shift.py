"""The shift task."""

import numpy as np
from jaxtyping import Int

from constrained_dnc.tasks.numeral import AbstractNumeralTask


class Shift(AbstractNumeralTask):
    """The numerals shifted right by half the length (rounded down), circularly.

    >>> Shift().solve((2, 4, 2, 1, 3))
    (1, 3, 2, 4, 2)
    """

    name = "shift"
    summary = "the numerals shifted right by half their number, circularly"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return np.roll(numerals, numerals.shape[1] // 2, axis=1)
