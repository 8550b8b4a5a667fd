"""The paper's claims in one table: its values, ours, and how much ours vary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import isnan
from typing import NamedTuple

import numpy as np
import pandas as pd

from constrained_dnc.config import extended
from constrained_dnc.report import published, statistics
from constrained_dnc.report.findings import Findings, Key
from constrained_dnc.report.statistics import FEW_TRIALS
from constrained_dnc.report.tables import Number, Table, rounded

CAPTION = (
    "Selected by {}. {} of the paper's {} claims are about what was run here; the others are not "
    "tested. Values are longest inputs or average scores in percent, medians over seeds; beside "
    f"them the adjusted p of a test or the range of up to {FEW_TRIALS} seeds, of more the 95 % "
    "bootstrap interval in brackets. Not learnt: seeds under 95 % at their training lengths."
)


@dataclass(frozen=True)
class Side:
    """One side of a comparison: an approach, with or without extended memory."""

    approach: str
    extended: bool


LONGEST_IN_TRAINING = Side("training", False)
"""Stands for the longest input of training."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about the two sides of every pair, on a task.

    measure: "maximum length", "average score", "correlation" (of curvature and score), or the
    "significance" of a difference of average scores or "significance of correlation". A correlation
    has no pairs: it compares Kendall's tau with zero.
    """

    text: str
    task: str
    measure: str
    pairs: tuple[tuple[Side, ...], ...]


@cache
def claims() -> tuple[Claim, ...]:
    """The claims of the paper's abstract and results about its numbers, in reading order."""
    return tuple(
        Claim(
            row["text"],
            row["task"],
            row["measure"],
            tuple(_pairs(row["first"], row["second"])),
        )
        for row in published.rows("claims")
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


Pair = tuple[Side, ...]


class Value(NamedTuple):
    """A length, or a score in percent: the median over seeds and its interval."""

    median: Number
    low: Number
    high: Number
    seeds: int
    unlearnt: int = 0
    """How many of the seeds do not solve their training lengths."""

    @property
    def spread(self) -> str:
        """
        >>> Value(31, 24, 40, 3).spread, Value(31, 29, 32, 10).spread
        ('24 to 40', '[29, 32]')
        """
        if self.seeds == 1:
            return "one seed"
        text = "{:.0f} to {:.0f}" if self.seeds <= FEW_TRIALS else "[{:.0f}, {:.0f}]"
        return text.format(self.low, self.high)

    @property
    def seeds_text(self) -> str:
        """The number of seeds."""
        return str(self.seeds) + f" ({self.unlearnt} not learnt)" * bool(self.unlearnt)


class Result(NamedTuple):
    """What a study has to say about a claim: values, p or spread, and numbers of seeds."""

    ours: str
    spread: str
    seeds: str


def claims_table(findings: Findings, analysed: Findings) -> Table:
    """One row per claim about cells of the study; `analysed` has the findings with curvatures."""
    rows = [
        (claim.text, paper_values(claim), *result)
        for claim in claims()
        if (result := result_of(claim, findings, analysed))
    ]
    columns = ["claim", "paper", "ours", "p or spread", "seeds"]
    caption = CAPTION.format(findings.selection, len(rows), len(claims()))
    cells = pd.DataFrame(rows, columns=columns).set_index("claim")
    return Table("claims", "The paper's claims", caption, cells)


def result_of(claim: Claim, findings: Findings, analysed: Findings) -> Result | None:
    """Our values for a claim; None unless the study has all of its cells."""
    if not findings.is_comparable:
        return None
    if not claim.pairs:
        return _correlation(claim, analysed)
    parts = [_compared(claim, pair, findings) for pair in claim.pairs]
    if None in parts:
        return None
    return Result(*("; ".join(texts) for texts in zip(*filter(None, parts), strict=True)))


def _compared(claim: Claim, pair: Pair, findings: Findings) -> Result | None:
    values = _values(claim, pair, findings)
    if not values:
        return None
    measured = [value for value in values if value.seeds]
    ours = " against ".join(rounded(value.median, 0) for value in values)
    spread = " against ".join(value.spread for value in measured)
    if claim.measure == "significance":
        names = {side.approach for side in pair}
        tests = (test for test in findings.paper_tests if test.task == claim.task)
        spread = p_text(next(t.p_adjusted for t in tests if {t.first, t.second} == names))
    return Result(ours, spread, " against ".join(value.seeds_text for value in measured))


def _correlation(claim: Claim, findings: Findings) -> Result | None:
    if "curvature" not in findings.properties:
        return None
    ours = next(
        (correlation for correlation in findings.correlations() if correlation.task == claim.task),
        None,
    )
    if ours is None or isnan(ours.tau):
        return None
    return Result(f"tau {rounded(ours.tau, 2)}", p_text(ours.p_adjusted), str(ours.instances))


def _values(claim: Claim, pair: Pair, findings: Findings) -> list[Value]:
    """Our values for the sides of a pair; none if one of them was not run."""
    sides = [side for side in pair if side != LONGEST_IN_TRAINING]
    size = findings.study.memory_size
    memories = [str(extended(size) if side.extended else size) for side in sides]
    keys = [
        (memory, claim.task, side.approach) for memory, side in zip(memories, sides, strict=True)
    ]
    if any(key not in findings.curves for key in keys):
        return []
    if claim.measure != "maximum length":
        return [_average(key, findings) for key in keys]
    curves = [findings.solvable(key) for key in keys]
    if len({*memories}) > 1:
        curves = _comparable(*curves)
    last = findings.study.training_lengths[1]
    constant = [Value(last, last, last, 0)] * (LONGEST_IN_TRAINING in pair)
    lengths = [_length(curve, key, findings) for curve, key in zip(curves, keys, strict=True)]
    return lengths + constant


def _comparable(larger: pd.DataFrame, trained: pd.DataFrame) -> list[pd.DataFrame]:
    """Curves of two memories at the lengths that both were evaluated at.

    All lengths of the larger memory count if the trained one fails before its last length.
    """
    shared = larger.columns.intersection(trained.columns)
    has_failed = (
        statistics.max_length(trained.to_numpy(), trained.columns.to_numpy())
        < trained.columns.to_numpy().max()
    )
    return [larger if has_failed else larger[shared], trained[shared]]


def _length(curve: pd.DataFrame, key: Key, findings: Findings) -> Value:
    scores, lengths = curve.to_numpy(), curve.columns.to_numpy()
    length = statistics.max_length(scores, lengths)
    interval = statistics.max_length_interval(scores, lengths)
    return Value(length, *interval, len(scores), _unlearnt(key, findings))


def _average(key: Key, findings: Findings) -> Value:
    scores = 100 * findings.averages_of(key).to_numpy()
    interval = statistics.median_interval(scores)
    return Value(float(np.median(scores)), *interval, len(scores), _unlearnt(key, findings))


def _unlearnt(key: Key, findings: Findings) -> int:
    """The seeds that do not solve their training lengths with the slots of training."""
    return len(findings.unlearnt((findings.trained_memory, *key[1:])))


def paper_values(claim: Claim) -> str:
    """The paper's values for a claim."""
    if not claim.pairs:
        tau, p = published.curvature_correlations()[claim.task]
        return f"tau {rounded(tau, 2)}, {p_text(p)}"
    return "; ".join(_paper_pair(claim, pair) for pair in claim.pairs)


def _paper_pair(claim: Claim, pair: Pair) -> str:
    values = [_paper_value(claim, side) for side in pair]
    if None in values:
        return "a figure only"
    text = " against ".join(rounded(value, 0) for value in values)
    if claim.measure != "significance":
        return text
    first, second = (side.approach for side in pair)
    p = published.pairwise_p(extended=False)
    test = p.get((claim.task, first, second)) or p[claim.task, second, first]
    return f"{text}, {p_text(test)}"


def _paper_value(claim: Claim, side: Side) -> Number | None:
    """The printed length, or median in percent, of a side; None if the paper only plots it."""
    key = (claim.task, side.approach)
    if side == LONGEST_IN_TRAINING:
        return published.TRAINING_LENGTHS[1]
    if claim.measure == "maximum length":
        return published.max_lengths(side.extended).get(key)
    score = published.average_scores(side.extended).get(key)
    return None if score is None else 100 * score["median"]


def p_text(p: float) -> str:
    """
    >>> p_text(0.0004), p_text(0.0384)
    ('p < 0.001', 'p = 0.038')
    """
    return "p < 0.001" if p < 0.0005 else f"p = {rounded(p, 3)}"
