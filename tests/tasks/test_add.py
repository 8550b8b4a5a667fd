"""The add task; its steps and scores are checked in test_sequence.py."""

from __future__ import annotations

import numpy as np
import pytest

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.add import Add

PAPER = ((0, 1), (0, 0), (1, 1), (1, 0), (1, 0))


@pytest.mark.parametrize("length", [1, 2, 9])
def test_results_by_brute_force(length: int) -> None:
    batch = Add().sample(0, 25, length)
    for sample, problem in enumerate(batch.problems):
        for place in range(length):
            first, second = (batch.inputs[place, sample, :2] + 1) / 2
            high, low = (batch.targets[length + 1 + place, sample, :2] + 1) / 2
            assert (first, second) == problem[place]
            assert 2 * high + low == first + second


def test_bits_are_fair() -> None:
    bits = np.array(Add().sample(0, 500, 10).problems)
    assert set(bits.ravel().tolist()) == {0, 1}
    assert abs(bits.mean() - 0.5) < 4 * 0.5 / np.sqrt(bits.size)


def test_each_bit_counts() -> None:
    """One wrong bit of four; an output of exactly 0 is the bit 0."""
    task = Add()
    batch = task.batch_of([((1, 1), (1, 0))])
    outputs = np.zeros((6, 1, 3))
    outputs[3:5, 0] = [[0.1, 0.2, 0], [0.0, 3.0, 0]]
    assert task.score(batch, outputs).score.tolist() == [0.75]
    assert task.decode(outputs, 2) == [(3, 1)]


def test_one_bit_that_is_not_finite() -> None:
    task = Add()
    batch = task.batch_of([((1, 1), (0, 0))])
    outputs = batch.targets.copy()
    outputs[4, 0, 0] = np.nan
    assert task.decode(outputs, 2) == [(2, None)]
    assert task.score(batch, outputs).score.tolist() == [0.75]


def test_text() -> None:
    task = Add()
    assert task.parse("00111 + 10100") == PAPER
    assert task.parse(" 00111+10100 ") == PAPER
    assert task.format_problem(PAPER) == "00111 + 10100"
    assert task.format_answer((1, 0, 2, 1, 1)) == "1 0 2 1 1"
    for text in ("01 + 1", "01", "02 + 11", "1 + 1 + 1", "1 0 + 1 1"):
        with pytest.raises(SettingError, match="two binary sequences of one length"):
            task.parse(text)
