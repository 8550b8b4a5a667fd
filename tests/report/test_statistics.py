"""The statistics against independent lines of NumPy and SciPy, and worked examples."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from constrained_dnc.report import statistics

LENGTHS = np.arange(2, 101)


@given(arrays(np.float64, (4, 7), elements=st.sampled_from([0.0, 0.9, 0.95, 1.0])))
def test_max_length_by_a_loop(scores: np.ndarray) -> None:
    lengths = np.array([2, 5, 10, 15, 20, 30, 50])
    expected = 0
    for column, length in enumerate(lengths):
        ordered = sorted(scores[:, column])
        if (ordered[1] + ordered[2]) / 2 >= 0.95:
            expected = int(length)
    assert statistics.max_length(scores, lengths) == expected


def test_max_length_ignores_lengths_that_not_every_trial_has() -> None:
    scores = np.array([[1.0, 1.0], [1.0, np.nan]])
    assert statistics.max_length(scores, np.array([2, 3])) == 2


def test_interval_agrees_with_scipys_bootstrap() -> None:
    rng = np.random.default_rng(3)
    ends = rng.integers(15, 60, size=10)
    scores = (ends[:, None] >= LENGTHS).astype(float)
    ours = statistics.max_length_interval(scores, LENGTHS)

    def longest(trials: np.ndarray, axis: int = -1) -> np.ndarray:
        medians = np.median(scores[trials.astype(int)], axis=axis if axis >= 0 else -2)
        return np.asarray(np.max(np.where(medians >= 0.95, LENGTHS, 0.0), axis=-1))

    theirs = stats.bootstrap(
        (np.arange(10),), longest, method="percentile", vectorized=True, n_resamples=1999, rng=1
    ).confidence_interval
    # The ends lie on the few values a median of trials can take; allow one step between them.
    step = np.max(np.diff(np.sort(ends)))
    assert abs(ours[0] - theirs.low) <= step
    assert abs(ours[1] - theirs.high) <= step
    assert ours[0] <= statistics.max_length(scores, LENGTHS) <= ours[1]


def test_up_to_five_trials_have_their_range() -> None:
    ends = np.array([31, 12, 40, 20, 50, 25])
    scores = (ends[:, None] >= LENGTHS).astype(float)
    assert statistics.max_length_interval(scores[:5], LENGTHS) == (12, 50)
    assert statistics.max_length_interval(scores[:1], LENGTHS) == (31, 31)
    assert statistics.max_length_interval(scores, LENGTHS) != (12, 50)
    assert statistics.median_interval(ends[:2].astype(float)) == (12, 31)


def test_benjamini_hochberg_worked_example() -> None:
    # By hand: p * 5 / rank, then the running minimum from the largest down.
    p = np.array([0.01, 0.04, 0.03, 0.005, 0.5])
    np.testing.assert_allclose(statistics.adjust(p), [0.025, 0.05, 0.05, 0.025, 0.5])


def test_an_absent_test_does_not_count_in_the_adjustment() -> None:
    np.testing.assert_allclose(
        statistics.adjust(np.array([0.01, np.nan, 0.5])), [0.02, np.nan, 0.5]
    )
    assert statistics.adjust(np.array([])).size == 0


def test_pairwise_tests_by_hand() -> None:
    rng = np.random.default_rng(1)
    names = ["a", "b", "c"]
    averages = {key: rng.random(6) for key in product(["sort", "copy"], names)}
    del averages["copy", "c"]
    results = statistics.pairwise_tests(averages, ["sort", "copy"], combinations(names, 2))
    assert [(test.task, test.first, test.second) for test in results] == [
        ("sort", "a", "b"),
        ("sort", "a", "c"),
        ("sort", "b", "c"),
        ("copy", "a", "b"),
    ]
    for test in results:
        first, second = averages[test.task, test.first], averages[test.task, test.second]
        assert test.p == pytest.approx(_exact_p(first, second))
    adjusted = stats.false_discovery_control([test.p for test in results])
    np.testing.assert_allclose([test.p_adjusted for test in results], adjusted)


def _exact_p(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p of the U test over all ways to split the pooled values."""
    pooled = np.concatenate([first, second])
    centre = len(first) * len(second) / 2

    def distance(chosen: tuple[int, ...]) -> float:
        rest = np.delete(pooled, chosen)
        return abs(sum(float((pooled[one] > rest).sum()) for one in chosen) - centre)

    splits = list(combinations(range(len(pooled)), len(first)))
    observed = distance(tuple(range(len(first))))
    return float(np.mean([distance(split) >= observed for split in splits]))


@settings(max_examples=40)
@given(
    arrays(np.float64, st.integers(1, 5), elements=st.sampled_from([0.2, 0.9, 1.0])),
    arrays(np.float64, st.integers(1, 5), elements=st.sampled_from([0.2, 0.9, 1.0])),
)
def test_no_p_is_below_the_smallest_one(first: np.ndarray, second: np.ndarray) -> None:
    averages = {("sort", "a"): first, ("sort", "b"): second}
    (test,) = statistics.pairwise_tests(averages, ["sort"], [("a", "b")])
    assert test.p >= statistics.smallest_p(len(first), len(second))
    if min(len(first), len(second)) > 1:  # SciPy permutes no single one
        permuted = stats.mannwhitneyu(first, second, method=stats.PermutationMethod(1000)).pvalue
        assert test.p == pytest.approx(permuted)


def test_nineteen_of_twenty_are_ninety_five_percent() -> None:
    score = float(np.full(192, 19 / 20).mean())
    assert score < 0.95
    assert statistics.max_length(np.array([[score]]), np.array([7])) == 7
    assert statistics.max_length_interval(np.full((2, 1), score), np.array([7])) == (7, 7)


def test_kendalls_tau_by_counting_pairs() -> None:
    rng = np.random.default_rng(5)
    curvature, score = rng.random(12), rng.random(12)
    signs = [
        np.sign((curvature[i] - curvature[j]) * (score[i] - score[j]))
        for i, j in combinations(range(12), 2)
    ]
    tau = sum(signs) / len(signs)
    # Normal approximation without ties: var = 2 (2n + 5) / (9 n (n - 1)).
    z = tau / np.sqrt(2 * 29 / (9 * 12 * 11))
    few = np.array([1.0, 2.0])
    results = statistics.correlations({"sort": (curvature, score), "copy": (few, few)})
    assert results[0].tau == pytest.approx(tau)
    assert results[0].p == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert results[0].p_adjusted == results[0].p
    assert np.isnan(results[1].tau)
