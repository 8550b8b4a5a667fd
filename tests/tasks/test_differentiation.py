"""The differentiation task; its batches are checked in test_numeral.py and test_sequence.py."""

import numpy as np
import pytest

from constrained_dnc.tasks.differentiation import Differentiation


def test_example_of_the_paper() -> None:
    assert Differentiation().solve((2, 5, 2, 1, 3)) == (3, 3, 1, 2, 0)


@pytest.mark.parametrize(
    ("problem", "result"),
    [((3,), (0,)), ((0, 4), (4, 0)), ((4, 0), (4, 0)), ((1, 1, 2), (0, 1, 0))],
)
def test_short_inputs(problem: tuple[int, ...], result: tuple[int, ...]) -> None:
    assert Differentiation().solve(problem) == result


def test_last_result_is_always_numeral_0() -> None:
    batch = Differentiation().sample(0, 20, 6)
    assert np.all(batch.targets[12, :, 0] == -1)
