"""The shift task; its batches are checked in test_numeral.py and test_sequence.py."""

import numpy as np
import pytest

from constrained_dnc.tasks.shift import Shift


def test_example_of_the_paper() -> None:
    assert Shift().solve((2, 5, 2, 1, 3)) == (1, 3, 2, 5, 2)


@pytest.mark.parametrize(
    ("problem", "result"),
    [((3,), (3,)), ((0, 1), (1, 0)), ((0, 1, 2), (2, 0, 1)), ((0, 1, 2, 3), (2, 3, 0, 1))],
)
def test_short_inputs(problem: tuple[int, ...], result: tuple[int, ...]) -> None:
    assert Shift().solve(problem) == result


def test_first_half_comes_last_in_the_batch() -> None:
    batch = Shift().sample(0, 20, 6)
    assert np.array_equal(batch.targets[10:13, :, 0], batch.inputs[:3, :, 0])
