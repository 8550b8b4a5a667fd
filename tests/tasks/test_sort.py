"""The sort task; its batches are checked in test_numeral.py and test_sequence.py."""

import numpy as np
import pytest

from constrained_dnc.tasks.sort import Sort


def test_example_of_the_paper() -> None:
    assert Sort().solve((2, 5, 2, 1, 3)) == (1, 2, 2, 3, 5)


def test_batch_written_out() -> None:
    batch = Sort().batch_of([(4, 0, 1)])
    np.testing.assert_array_equal(
        batch.inputs[:, 0], [[1, 0], [-1, 0], [-0.5, 0], [0, 1], [0, 0], [0, 0], [0, 0], [0, 0]]
    )
    np.testing.assert_array_equal(
        batch.targets[:, 0], [[0, 0], [0, 0], [0, 0], [0, 0], [-1, 0], [-0.5, 0], [1, 0], [0, 1]]
    )
    np.testing.assert_array_equal(batch.mask[:, 0], [0, 0, 0, 0, 1, 1, 1, 1])


@pytest.mark.parametrize("problem", [(0,), (1, 1, 1), (4, 3, 2, 1, 0)])
def test_sorted_as_python_does(problem: tuple[int, ...]) -> None:
    assert list(Sort().solve(problem)) == sorted(problem)
