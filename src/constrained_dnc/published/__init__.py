"""The paper's numbers and claims, as data."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

TASKS = ("sort", "copy", "differentiation", "shift", "add", "logic", "search")
APPROACHES = ("stateful-baseline", "stateless-baseline", "compr", "reg", "compr+reg")
STATEFUL = ("stateful-baseline", "compr", "reg", "compr+reg")  # pooled over in Kendall's tau
SUPPLEMENT_C = ("peephole", "lstm-compr", "lstm-reg", "lstm-compr+reg")
ENCODING_ONLY = ("search", "logic")  # tasks whose decoding phase the paper leaves out of t-SNE
ITERATIONS = 300_000
BATCH_SIZE, LEARNING_RATE, CLIP_NORM = 64, 1e-3, 50.0
SLOTS = 50
THRESHOLD = 0.95  # of the score, for a length to count as mastered
MASTERED = THRESHOLD - 1e-9  # a mean of exactly 19 in 20 can come out that much lower
AVERAGE_FROM, AVERAGE_UP_TO, AVERAGE_UP_TO_EXTENDED = 2, 45, 450
TRIALS = 10
TRAINING_LENGTHS = (5, 15)
UNSEEN_LENGTH = 30
TITLE = (
    "State-Space Constraints Can Improve the Generalisation of the Differentiable Neural Computer "
    "to Input Sequences With Unseen Length"
)


def max_length_of(scores: Mapping[int, float]) -> int:
    """The longest length with a score of at least 95 %, 0 if there is none.

    Shorter lengths may fail: it is the longest length, not the first crossing.

    >>> max_length_of({2: 1.0, 3: 0.5, 4: 0.96, 5: 0.2})
    4
    """
    return max((length for length, score in scores.items() if score >= MASTERED), default=0)


@cache
def max_lengths(extended: bool) -> dict[tuple[str, str], int]:
    """Maximum length by (task, approach)."""
    rows = _rows("max_length", extended)
    return {(row["task"], row["approach"]): int(row["max_length"]) for row in rows}


@cache
def average_scores(extended: bool) -> dict[tuple[str, str], dict[str, float]]:
    """Median, max, mean and sd of the trials' average scores, from 0 to 1, by (task, approach)."""
    statistics = ("median", "max", "mean", "sd")
    return {
        (row["task"], row["approach"]): {name: float(row[name]) / 100 for name in statistics}
        for row in _rows("average_score", extended)
    }


@cache
def bold_medians(extended: bool) -> dict[str, str]:
    """By task, the approach whose median is bold in the paper's table.

    The paper compared before rounding: equal printed medians do not tell which one is bold.
    """
    rows = _rows("average_score", extended)
    return {row["task"]: row["approach"] for row in rows if row["bold"] == "yes"}


@cache
def pairwise_p(extended: bool) -> dict[tuple[str, str, str], float]:
    """Adjusted p by (task, approach, approach)."""
    return {
        (row["task"], row["approach_a"], row["approach_b"]): float(row["p_adjusted"])
        for row in _rows("pairwise_p", extended)
    }


@cache
def curvature_correlations() -> dict[str, tuple[float, float]]:
    """Kendall's tau and adjusted p by task."""
    rows = _rows("curvature_correlation", False)
    return {row["task"]: (float(row["kendall_tau"]), float(row["p_adjusted"])) for row in rows}


@cache
def explained_variances() -> dict[str, float]:
    """By task, the share of the variance in 20 principal components, a mean over instances."""
    rows = _rows("explained_variance", False)
    return {row["task"]: float(row["percent"]) / 100 for row in rows}


def _rows(table: str, extended: bool) -> list[dict[str, str]]:
    name = f"{table}_extended_memory.csv" if extended else f"{table}.csv"
    text = resources.files(__package__).joinpath("values", name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


@dataclass(frozen=True)
class Side:
    """One side of a comparison: an approach, with or without extended memory."""

    approach: str
    extended: bool


LONGEST_IN_TRAINING = Side("training", False)
"""Stands for the longest input of training."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: on a task, a relation of the first of every pair to the second.

    measure: "maximum length", "average score", "correlation" (of curvature and score), or the
    "significance" of a difference of average scores or "significance of correlation". relation:
    "above", "below", "alike", "not above" (of a significance) or, of one side alone, "fails". A
    correlation has no pairs: it compares Kendall's tau with zero.
    """

    text: str
    task: str
    measure: str
    relation: str
    pairs: tuple[tuple[Side, ...], ...]


@cache
def claims() -> tuple[Claim, ...]:
    """The claims of the paper's abstract and results about its numbers, in reading order."""
    return tuple(
        Claim(
            row["text"],
            row["task"],
            row["measure"],
            row["relation"],
            tuple(_pairs(row["first"], row["second"])),
        )
        for row in _rows("claims", False)
    )


def _pairs(first: str, second: str) -> Iterator[tuple[Side, ...]]:
    """Pairs from lists separated by semicolons: one to many, many to one, or one to one."""
    firsts, seconds = first.split(";"), second.split(";")
    for index in range(max(len(firsts), len(seconds)) if first else 0):
        texts = firsts[index % len(firsts)], seconds[index % len(seconds)]
        yield tuple(_side(text) for text in texts if text)


def _side(text: str) -> Side:
    approach, _, extended = text.partition(" ")
    return Side(approach, bool(extended))
