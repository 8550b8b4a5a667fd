"""The paper's claims in one table: its values, ours, their spread or p, and whether they agree.

A claim is tested if both sides have at least two trials and solve their training lengths, unless
the paper's do not either. A difference within the spread of the trials, that is with overlapping
95 % bootstrap intervals, counts as none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import isnan
from typing import NamedTuple

import numpy as np
import pandas as pd

from constrained_dnc.config import MASTERED, extended
from constrained_dnc.report import published, statistics
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.statistics import SIGNIFICANCE
from constrained_dnc.report.tables import DASH, Number, Table, rounded

AGREES, DISAGREES, NOT_TESTED = "agrees", "does not", "not tested"
ALIKE = 0.2
"""Values within a fifth of the larger one count as alike: the paper gives no limit."""
CAPTION = (
    "Selected by {}. In brackets the spread of the trials, the 95 % bootstrap interval. A claim "
    "does not agree if the difference lies the other way or within the spread. Not tested: not "
    "run, one trial, too few trials for a p of 0.05, or training lengths that are not solved."
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
    """A length, or a score in percent: the median of some trials and its interval."""

    median: Number
    low: Number
    high: Number
    trials: int

    @property
    def spread(self) -> str:
        return f"[{self.low:.0f}, {self.high:.0f}]" if self.trials > 1 else "one trial"


class Verdict(NamedTuple):
    """Our values, their spread or p, and whether they agree with a claim."""

    ours: str = DASH
    spread: str = DASH
    agrees: str = NOT_TESTED


def claims_table(findings: Findings, analysed: Findings) -> Table:
    """One row per claim, those that agree first; `analysed` has the findings with curvatures."""
    rows = [(it.text, paper_values(it), *judge(it, findings, analysed)) for it in claims()]
    words = (AGREES, DISAGREES, NOT_TESTED)
    rows.sort(key=lambda row: (words.index(row[-1]), row[2] == DASH))
    columns = ["claim", "paper", "ours", "p or spread", "agrees"]
    cells = pd.DataFrame(rows, columns=columns).set_index("claim")
    return Table("claims", "The paper's claims", CAPTION.format(findings.selection), cells)


def has_tested_claims(table: Table) -> bool:
    """Whether a table of claims compares anything with the paper."""
    return bool((table.cells["agrees"] != NOT_TESTED).any())


def judge(claim: Claim, findings: Findings, analysed: Findings) -> Verdict:
    """Whether a study agrees with every comparison of a claim."""
    if not claim.pairs:
        return _judge_correlation(claim, analysed)
    verdicts = [_judge_pair(claim, pair, findings) for pair in claim.pairs]
    answers = {verdict.agrees for verdict in verdicts}
    agrees = next(word for word in (DISAGREES, NOT_TESTED, AGREES) if word in answers)
    known = [verdict for verdict in verdicts if verdict.ours != DASH] or [Verdict()]
    return Verdict("; ".join(it.ours for it in known), "; ".join(it.spread for it in known), agrees)


def agreement(relation: str, first: Value, second: Value) -> str:
    """Whether two values stand in the relation that the paper claims.

    >>> agreement("above", Value(31, 28, 33, 3), Value(22, 20, 23, 3))
    'agrees'
    >>> agreement("above", Value(31, 15, 33, 3), Value(22, 20, 23, 3))
    'does not'
    """
    agrees = {
        "fails": first.median == 0,
        "alike": abs(first.median - second.median) <= ALIKE * max(first.median, second.median),
        "above": first.low > second.high,
        "below": first.high < second.low,
    }[relation]
    return AGREES if agrees else DISAGREES


def significance(relation: str, difference: Number, p: float, least: float, complete: bool) -> str:
    """Whether a test comes out as in the paper; `least` is the smallest p it could have had.

    Only a study with as many trials as the paper (`complete`) can show that there is no difference.

    >>> significance("above", 0.2, 0.01, 0.001, complete=True)
    'agrees'
    >>> significance("alike", 0.2, 0.3, 0.01, complete=False)
    'not tested'
    """
    if isnan(p) or least > SIGNIFICANCE:
        return NOT_TESTED
    if p > SIGNIFICANCE and relation in ("alike", "not above"):
        return AGREES if complete else NOT_TESTED
    sign = {"above": 1, "below": -1, "not above": -1, "alike": 0}[relation]
    return AGREES if p <= SIGNIFICANCE and sign * difference > 0 else DISAGREES


def _judge_pair(claim: Claim, pair: Pair, findings: Findings) -> Verdict:
    sides = _values(claim, pair, findings)
    if not sides:
        return Verdict()
    ours = " against ".join(rounded(it.median, 0) for it in sides)
    first, second, agrees = sides[0], sides[-1], NOT_TESTED
    has_learnt = _has_learnt(claim, pair, findings)
    if claim.measure == "significance":
        names = {side.approach for side in pair}
        tests = [it for it in findings.paper_tests if it.task == claim.task]
        test = next(it for it in tests if {it.first, it.second} == names)
        difference, least = first.median - second.median, statistics.smallest_p(*test.trials)
        complete = min(test.trials) >= published.TRIALS
        if has_learnt:
            agrees = significance(claim.relation, difference, test.p_adjusted, least, complete)
        return Verdict(ours, p_text(test.p_adjusted), agrees)
    spread = " against ".join(it.spread for it in sides if it.trials)
    if has_learnt and 1 not in (first.trials, second.trials):
        agrees = agreement(claim.relation, first, second)
        overlap = max(first.low, second.low) <= min(first.high, second.high)
        if overlap and claim.relation in ("above", "below"):
            spread += ": no difference"
    return Verdict(ours, spread, agrees)


def _judge_correlation(claim: Claim, findings: Findings) -> Verdict:
    ours = next((it for it in findings.correlations() if it.task == claim.task), None)
    if ours is None or isnan(ours.tau):
        return Verdict()
    least = statistics.smallest_tau_p(ours.instances)
    complete = ours.instances >= statistics.PAPER_INSTANCES
    agrees = significance(claim.relation, ours.tau, ours.p_adjusted, least, complete)
    return Verdict(f"tau {rounded(ours.tau, 2)}", p_text(ours.p_adjusted), agrees)


def _values(claim: Claim, pair: Pair, findings: Findings) -> list[Value]:
    """Our values for the sides of a pair; none if one of them was not run."""
    sides = [side for side in pair if side != LONGEST_IN_TRAINING]
    size = findings.study.memory_size
    memories = [str(extended(size) if side.extended else size) for side in sides]
    keys = [(it, claim.task, side.approach) for it, side in zip(memories, sides, strict=True)]
    if any(key not in findings.curves for key in keys):
        return []
    if claim.measure != "maximum length":
        averages = [100 * findings.averages_of(key).to_numpy() for key in keys]
        return [_average(it) for it in averages] if all(map(len, averages)) else []
    curves = [findings.solvable(key) for key in keys]
    if len({*memories}) > 1:
        curves = _comparable(*curves)
    last = findings.study.training_lengths[1]
    constant = [Value(last, last, last, 0)] * (LONGEST_IN_TRAINING in pair)
    return [*map(_length, curves), *constant]


def _comparable(larger: pd.DataFrame, trained: pd.DataFrame) -> list[pd.DataFrame]:
    """Curves of two memories at the lengths that both were evaluated at.

    All lengths of the larger memory count if the trained one fails before its last length.
    """
    shared = larger.columns.intersection(trained.columns)
    has_failed = _length(trained).median < trained.columns.to_numpy().max()
    return [larger if has_failed else larger[shared], trained[shared]]


def _length(curve: pd.DataFrame) -> Value:
    scores, lengths = curve.to_numpy(), curve.columns.to_numpy()
    length = statistics.max_length(scores, lengths)
    low, high = statistics.max_length_interval(scores, lengths) or (length, length)
    return Value(length, low, high, len(scores))


def _average(averages: np.ndarray) -> Value:
    interval = statistics.median_interval(averages)
    return Value(float(np.median(averages)), *interval, len(averages))


def _has_learnt(claim: Claim, pair: Pair, findings: Findings) -> bool:
    """Whether the sides solve their training lengths, unless the paper's do not either.

    A claim about failing at training lengths needs some other approach that solves them.
    """
    approaches = {side.approach for side in pair}
    scores = findings.training_scores
    keys = findings.keys([findings.trained_memory], [claim.task])
    solved = {key[2] for key in keys if scores.get(key, 0.0) >= MASTERED}
    if LONGEST_IN_TRAINING in pair:
        return bool(solved)
    lengths = published.max_lengths(extended=False)
    last = published.TRAINING_LENGTHS[1]
    failing = {name for name in approaches if lengths.get((claim.task, name), last) < last}
    return bool(solved) and approaches <= solved | failing


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
