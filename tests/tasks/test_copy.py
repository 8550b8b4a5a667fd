"""The copy task; its batches are checked in test_numeral.py and test_sequence.py."""

import numpy as np
import pytest

from constrained_dnc.tasks.copy import Copy


def test_example_of_the_paper() -> None:
    assert Copy().solve((2, 5, 2, 1, 3)) == (2, 5, 2, 1, 3)


@pytest.mark.parametrize("length", [1, 4, 9])
def test_targets_are_the_inputs_later(length: int) -> None:
    batch = Copy().sample(0, 5, length)
    copied = batch.targets[length + 1 : 2 * length + 1, :, 0]
    assert np.array_equal(copied, batch.inputs[:length, :, 0])
