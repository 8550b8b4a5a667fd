"""The statistics of the paper's tables, from scores of trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from jaxtyping import Float, Int, Num
from scipy import stats

from constrained_dnc.config import MASTERED, max_length_of

SIGNIFICANCE = 0.05
CONFIDENCE, RESAMPLES = 0.95, 2000  # of bootstrap intervals
MOST_DIVISIONS = comb(16, 8)
"""With ties, a test enumerates up to this many ways to split the trials between two approaches."""
FEW_TRIALS = 5
"""Up to this many trials are shown one by one, not as an interval.

A percentile bootstrap of two trials is their range, which holds the median of all possible trials
with probability 50 %; with three it is 75 %, with five 94 %.
"""


def max_length(
    scores: Float[np.ndarray, "trials lengths"], lengths: Int[np.ndarray, "lengths"]
) -> int:
    """The longest length whose median over trials is at least 95 %, 0 if there is none.

    A length that a trial was not evaluated at (NaN) does not count.

    >>> max_length(np.array([[1.0, 0.5, 0.96, 0.2]]), np.array([2, 3, 4, 5]))
    4
    """
    medians = np.median(scores, axis=0)
    return max_length_of(dict(zip(lengths.tolist(), medians.tolist(), strict=True)))


def max_length_interval(
    scores: Float[np.ndarray, "trials lengths"], lengths: Int[np.ndarray, "lengths"]
) -> tuple[int, int]:
    """The 95 % bootstrap interval of the maximum length; up to five trials, their range."""
    if len(scores) <= FEW_TRIALS:
        longest = [max_length(trial[None], lengths) for trial in scores]
        return min(longest), max(longest)
    # The order of the drawn trials does not matter, so few draws are distinct.
    draws, count = np.unique(np.sort(_draws(len(scores)), axis=1), axis=0, return_counts=True)
    passes = np.median(scores[draws], axis=1) >= MASTERED
    longest = np.max(np.where(passes, lengths, 0), axis=1, initial=0)
    low, high = _interval(np.repeat(longest, count))
    return int(low), int(high)


def median_interval(values: Float[np.ndarray, "trials"]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median over trials; up to five trials, their range."""
    if len(values) <= FEW_TRIALS:
        return float(values.min()), float(values.max())
    return _interval(np.median(values[_draws(len(values))], axis=1))


def _draws(trials: int) -> Int[np.ndarray, "resamples trials"]:
    """Trials drawn with replacement for a percentile bootstrap, from a fixed seed."""
    return np.random.default_rng(0).integers(trials, size=(RESAMPLES, trials))


def _interval(resampled: Num[np.ndarray, "resamples"]) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


@dataclass(frozen=True)
class PairTest:
    """A two-sided Mann-Whitney U test between the trials of two approaches on a task."""

    task: str
    first: str
    second: str
    trials: tuple[int, int]
    p: float
    p_adjusted: float


def pairwise_tests(
    averages: Mapping[tuple[str, str], Float[np.ndarray, "..."]],
    tasks: Sequence[str],
    pairs: Iterable[tuple[str, str]],
) -> list[PairTest]:
    """Test the pairs of approaches on every task where both were run.

    Exact for at most eight trials, else by normal approximation. The adjustment is
    Benjamini-Hochberg over all the tests returned.
    """
    pairs = list(pairs)
    cases = [
        (task, *pair)
        for task in tasks
        for pair in pairs
        if all((task, approach) in averages for approach in pair)
    ]
    samples = [(averages[task, first], averages[task, second]) for task, first, second in cases]
    p = np.array([_mann_whitney(a, b) for a, b in samples])
    return [
        PairTest(*case, (len(a), len(b)), float(raw), float(adjusted))
        for case, (a, b), raw, adjusted in zip(cases, samples, p, adjust(p), strict=True)
    ]


def _mann_whitney(first: Float[np.ndarray, "_"], second: Float[np.ndarray, "_"]) -> float:
    """The two-sided p; SciPy's is not exact for few trials with ties."""
    pooled = np.concatenate([first, second])
    has_ties = len(np.unique(pooled)) < len(pooled)
    divisions = comb(len(pooled), len(first))
    if np.isnan(pooled).any() or not has_ties or divisions > MOST_DIVISIONS:
        return float(stats.mannwhitneyu(first, second, alternative="two-sided").pvalue)
    ranks = stats.rankdata(pooled)
    chosen = np.array(list(combinations(range(len(pooled)), len(first))))
    sums = ranks[chosen].sum(axis=1)  # the first split is the observed one
    return float(min(1.0, 2 * min(np.mean(sums <= sums[0]), np.mean(sums >= sums[0]))))


def adjust(p: Float[np.ndarray, "tests"]) -> Float[np.ndarray, "tests"]:
    """Benjamini-Hochberg adjusted p-values; NaN, which stands for no test, stays NaN."""
    adjusted = np.full(p.shape, np.nan)
    tested = ~np.isnan(p)
    if tested.any():
        adjusted[tested] = stats.false_discovery_control(p[tested], method="bh")
    return adjusted


def smallest_p(first_trials: int, second_trials: int) -> float:
    """The smallest two-sided p an exact Mann-Whitney U test can give with these numbers of trials.

    >>> smallest_p(3, 3)
    0.1
    """
    return min(1.0, 2 / comb(first_trials + second_trials, first_trials))


def few_trials_warning(tests: Iterable[PairTest]) -> str:
    """What the p of the largest groups can be at best; empty if that is at most 0.001."""
    first, second = min((test.trials for test in tests), key=lambda pair: smallest_p(*pair))
    least = smallest_p(first, second)
    if least <= 0.001:
        return ""
    return f"{first} seeds against {second} give a p of at least {least:.2g} before the adjustment."


@dataclass(frozen=True)
class Correlation:
    """Kendall's tau between a property and the average score of a task's instances."""

    task: str
    instances: int
    tau: float
    p: float
    p_adjusted: float


def correlations(
    samples: Mapping[str, tuple[Float[np.ndarray, "instances"], Float[np.ndarray, "instances"]]],
) -> list[Correlation]:
    """Kendall's tau per task (p by normal approximation), adjusted over the tasks."""
    results = [_kendall(values, score) for values, score in samples.values()]
    adjusted = adjust(np.array([p for _, p in results]))
    return [
        Correlation(task, len(samples[task][0]), tau, p, float(p_adjusted))
        for task, (tau, p), p_adjusted in zip(samples, results, adjusted, strict=True)
    ]


def _kendall(
    values: Float[np.ndarray, "instances"], score: Float[np.ndarray, "instances"]
) -> tuple[float, float]:
    if len(values) < 3:  # two points always lie on a line
        return float("nan"), float("nan")
    result = stats.kendalltau(values, score, method="asymptotic")
    return float(result.statistic), float(result.pvalue)
