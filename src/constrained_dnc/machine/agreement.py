"""Whether two models give the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from constrained_dnc.tasks.task import Answer


def agreement(answers: Sequence[Answer], others: Sequence[Answer]) -> tuple[float, float]:
    """The mean share of equal entries, and the share of answers that are equal as a whole."""
    shares = [share_equal(*pair) for pair in zip(answers, others, strict=True)]
    return float(np.mean(shares)), float(np.mean([share == 1 for share in shares]))


def share_equal(answer: Answer, other: Answer) -> float:
    """The share of equal entries in two answers.

    >>> share_equal((1, 2), (1, 3)), share_equal((), ()), share_equal(True, False)
    (0.5, 1.0, 0.0)
    """
    if not isinstance(answer, Sequence):
        return float(answer == other)
    equal = [left == right for left, right in zip_longest(answer, other, fillvalue=object())]
    return float(np.mean(equal)) if equal else 1.0
