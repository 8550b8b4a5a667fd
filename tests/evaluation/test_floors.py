"""The best score of an answer that ignores the input."""

import json
from math import comb

import numpy as np
import pytest

from constrained_dnc.evaluation.floors import SAMPLES, STORED, compute_floor, floor
from constrained_dnc.tasks.numeral import Copy
from constrained_dnc.tasks.registry import get_task, task_names


def sort_floor(length: int) -> float:
    """Exactly: position k is at most v if more than k of the numerals are."""
    shares = []
    for place in range(length):
        at_most = [
            sum(
                comb(length, count) * ((v + 1) / 5) ** count * (1 - (v + 1) / 5) ** (length - count)
                for count in range(place + 1, length + 1)
            )
            for v in range(5)
        ]
        shares.append(max(np.diff([0.0, *at_most])))
    return float(np.mean(shares))


def test_sort_is_mostly_known_before_it_is_read():
    for length, share in {15: 0.65, 30: 0.74, 50: 0.80, 200: 0.90, 1000: 0.955}.items():
        assert floor("sort", length) == pytest.approx(share, abs=0.006)
        if length <= 50:
            three_errors = 3 * 0.16 / SAMPLES**0.5  # the score of one sample deviates by up to 0.16
            assert floor("sort", length) == pytest.approx(sort_floor(length), abs=three_errors)


@pytest.mark.parametrize(
    ("task", "share"),
    [("copy", 1 / 5), ("shift", 1 / 5), ("add", (3 / 4 + 1 / 2) / 2), ("differentiation", 0.34)],
)
def test_floors_by_hand(task, share):
    """A high bit is 0 in three of four sums; a difference is 0 in 5 of 25 pairs."""
    assert floor(task, 30) == pytest.approx(share, abs=0.01)


def test_the_floor_of_search_is_at_least_that_of_no_answer():
    """The empty answer is right whenever the query does not occur."""
    for length in (2, 5, 15):
        assert floor("search", length) > 0.8**length - 0.02


def test_the_floor_of_logic_is_the_likelier_truth_value():
    batch = get_task("logic").sample(5, 2000, 20)
    share = batch.targets[-1].mean()
    assert floor("logic", 20) == pytest.approx(max(share, 1 - share), abs=0.03)


@pytest.mark.parametrize("task", task_names())
def test_stored_floors_are_those_computed(task):
    stored = json.loads(STORED.read_text())[task]
    for length in (2, 7):
        assert stored[str(length)] == pytest.approx(compute_floor(get_task(task), length), abs=1e-4)


def test_the_floor_of_a_user_defined_task_is_computed():
    class Ones(Copy):
        name = "ones"

        def rule(self, numerals):
            return np.minimum(numerals, 1)

    assert floor(Ones(), 6) == pytest.approx(0.8, abs=0.01)
