"""Numerals in and out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks import AbstractNumeralTask, get_task
from constrained_dnc.tasks.contract import check_task

NAMES = ("sort", "copy", "differentiation", "shift")
EVERY_TASK = pytest.mark.parametrize("name", NAMES)


def plain_rule(name: str, numerals: tuple[int, ...]) -> tuple[int, ...]:
    length = len(numerals)
    if name == "sort":
        return tuple(value for value in range(10) for _ in range(numerals.count(value)))
    if name == "copy":
        return tuple(numerals[place] for place in range(length))
    if name == "shift":
        return tuple(numerals[(place - length // 2) % length] for place in range(length))
    differences = [abs(numerals[place + 1] - numerals[place]) for place in range(length - 1)]
    return (*differences, 0)


@pytest.mark.parametrize(
    ("name", "result"),
    {
        "sort": (1, 2, 2, 3, 5),
        "copy": (2, 5, 2, 1, 3),
        "differentiation": (3, 3, 1, 2, 0),
        "shift": (1, 3, 2, 5, 2),
    }.items(),
)
def test_example_of_the_paper(name: str, result: tuple[int, ...]) -> None:
    assert get_task(name).solve((2, 5, 2, 1, 3)) == result


@EVERY_TASK
@pytest.mark.parametrize("length", [1, 2, 3, 8, 15])
def test_results_by_brute_force(name: str, length: int) -> None:
    task = get_task(name)
    batch = task.sample(length, 25, length)
    scaled = {-1.0: 0, -0.5: 1, 0.0: 2, 0.5: 3, 1.0: 4}
    for sample, problem in enumerate(batch.problems):
        numerals = tuple(scaled[float(value)] for value in batch.inputs[:length, sample, 0])
        wanted = batch.targets[length + 1 : 2 * length + 1, sample, 0]
        result = tuple(scaled[float(value)] for value in wanted)
        assert numerals == problem
        assert result == plain_rule(name, numerals) == task.solve(problem)


@EVERY_TASK
@given(numerals=st.lists(st.integers(0, 9), min_size=1, max_size=30).map(tuple))
def test_solve(name: str, numerals: tuple[int, ...]) -> None:
    assert get_task(name).solve(numerals) == plain_rule(name, numerals)


def test_numerals_are_uniform() -> None:
    problems = get_task("copy").sample(0, 1000, 20).problems
    counts = np.bincount(np.array(problems).ravel(), minlength=5)
    assert counts.size == 5
    assert stats.chisquare(counts).pvalue > 1e-3


def test_outputs_are_not_clamped() -> None:
    """An output of 1.3 stands for 4.6, which is 5 and not 4."""
    task = get_task("copy")
    batch = task.batch_of([(4,)])
    outputs = np.zeros((4, 1, 2))
    outputs[2, 0, 0] = 1.3
    assert task.decode(outputs, 1) == [(5,)]
    assert task.score(batch, outputs).score.tolist() == [0]


def test_one_entry_that_is_not_finite() -> None:
    task = get_task("copy")
    batch = task.batch_of([(2, 3, 4)])
    outputs = batch.targets.copy()
    outputs[5, 0, 0] = np.nan
    (answer,) = task.decode(outputs, 3)
    assert answer == (2, None, 4)
    assert task.format_answer(answer) == "2 ? 4"
    assert task.score(batch, outputs).score.tolist() == pytest.approx([2 / 3])


def test_text() -> None:
    task = get_task("sort")
    assert task.parse(" 3 1,4 , 1\t0 ") == (3, 1, 4, 1, 0)
    assert task.format_problem((3, 1, 4, 1, 0)) == "3 1 4 1 0"
    assert task.format_answer((0, 1, 1, 3, 4)) == "0 1 1 3 4"
    assert task.parse("31410") == (3, 1, 4, 1, 0)
    for text in ("3 5", "3 -1", "3;1", "3 1.0", "three", ",", "1 ? 2"):
        with pytest.raises(SettingError) as caught:
            task.parse(text)
        assert str(caught.value) == (
            "problem must be numerals from 0 to 4, separated by spaces, such as '3 1 4 1 0', "
            f"not {text!r}"
        )


@pytest.mark.parametrize("count", [2, 3, 10, 26])
def test_an_alphabet_of_any_size(count: int) -> None:
    class Reverse(AbstractNumeralTask):
        name = "reverse"
        summary = "the numerals backwards"
        num_numerals = count

        def rule(self, numerals):
            return numerals[:, ::-1]

    task = Reverse()
    check_task(task)
    batch = task.sample(0, 200, 6)
    assert {*np.ravel(batch.problems).tolist()} == {*range(count)}
    assert (batch.inputs[:6, :, 0].min(), batch.inputs[:6, :, 0].max()) == (-1, 1)
    assert task.decode(batch.targets, 6) == [problem[::-1] for problem in batch.problems]
    text = f"0 {count - 1}"
    assert task.parse(text) == (0, count - 1)
    with pytest.raises(SettingError, match=f"numerals from 0 to {count - 1}, separated"):
        task.parse(f"0 {count}")
