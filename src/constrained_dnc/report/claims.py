"""The paper's claims in one table: its values, ours, their spread or p, and whether they agree.

A claim is tested if both sides have at least two trials and solve their training lengths, unless
the paper's do not either. A difference within the spread of the trials, that is with overlapping
95 % bootstrap intervals, is no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np
import pandas as pd

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.analysis.statistics import SIGNIFICANCE
from constrained_dnc.published import LONGEST_IN_TRAINING, MASTERED, Claim, Side
from constrained_dnc.report.findings import Findings, Key
from constrained_dnc.report.tables import DASH, Number, Table, make_table, rounded

AGREES, DISAGREES, NOT_TESTED = "agrees", "does not", "not tested"
ALIKE = 0.2
"""Values within a fifth of the larger one count as alike: the paper gives no limit."""
CAPTION = (
    "Selected by {}. In brackets the spread of the trials, the 95 % bootstrap interval. A claim "
    "does not agree if the difference lies the other way or within the spread. Not tested: not "
    "run, one trial, too few trials for a p of 0.05, or training lengths that are not solved."
)
Pair = tuple[Side, Side | None]


@dataclass(frozen=True)
class Value:
    """A length, or a score in percent: the median of some trials and its interval."""

    median: Number
    low: Number
    high: Number
    trials: int

    def __str__(self) -> str:
        return rounded(self.median, 0)

    @property
    def spread(self) -> str:
        return f"[{self.low:.0f}, {self.high:.0f}]" if self.trials > 1 else "one trial"


@dataclass(frozen=True)
class Verdict:
    """Ours, its spread or p, and whether it agrees."""

    ours: str = DASH
    spread: str = DASH
    agrees: str = NOT_TESTED


def claims_table(findings: Findings, analysed: Findings) -> Table:
    """One row per claim, those that agree first; `analysed` has the findings with curvatures."""
    judged = [(claim, judge(claim, findings, analysed)) for claim in published.claims()]
    words = (AGREES, DISAGREES, NOT_TESTED)
    judged.sort(key=lambda it: (words.index(it[1].agrees), it[1].ours == DASH))
    lines = [
        (claim.text, column, text, text)
        for claim, verdict in judged
        for column, text in (
            ("paper", paper_values(claim)),
            ("ours", verdict.ours),
            ("p or spread", verdict.spread),
            ("agrees", verdict.agrees),
        )
    ]
    frame = pd.DataFrame(lines, columns=["claim", "column", "value", "text"])
    caption = CAPTION.format(findings.selection)
    return make_table("claims", "The paper's claims", caption, frame, ["claim"], "column")


def has_tested_claims(table: Table) -> bool:
    """Whether a table of claims compares anything with the paper."""
    return bool((table.cells["agrees"] != NOT_TESTED).any())


def judge(claim: Claim, findings: Findings, analysed: Findings) -> Verdict:
    """Whether a study agrees with every comparison of a claim."""
    if not claim.pairs:
        return _judge_correlation(claim, analysed)
    judge_pair = _judge_test if claim.measure == "significance" else _judge_values
    verdicts = [judge_pair(claim, pair, findings) for pair in claim.pairs]
    measured = [verdict for verdict in verdicts if verdict.ours != DASH]
    if not measured:
        return Verdict()
    answers = [verdict.agrees for verdict in verdicts]
    agrees = next(word for word in (DISAGREES, NOT_TESTED, AGREES) if word in answers)
    ours, spreads = zip(*((it.ours, it.spread) for it in measured), strict=True)
    return Verdict("; ".join(ours), "; ".join(spreads), agrees)


def agreement(relation: str, first: Value, second: Value) -> str:
    """Whether two values stand in the relation that the paper claims.

    >>> agreement("above", Value(31, 28, 33, 3), Value(22, 20, 23, 3))
    'agrees'
    >>> agreement("above", Value(31, 15, 33, 3), Value(22, 20, 23, 3))
    'does not'
    """
    if relation == "fails":
        return AGREES if first.median == 0 else DISAGREES
    if relation == "alike":
        largest = max(first.median, second.median)
        return AGREES if abs(first.median - second.median) <= ALIKE * largest else DISAGREES
    higher, lower = (first, second) if relation == "above" else (second, first)
    return AGREES if higher.low > lower.high else DISAGREES


def significance(relation: str, difference: Number, p: float, least: float, complete: bool) -> str:
    """Whether a test comes out as the paper's; `least` is the smallest p it could have had.

    Only as many trials as the paper's (`complete`) can show that a difference is missing.

    >>> significance("above", 0.2, 0.01, 0.001, complete=True)
    'agrees'
    >>> significance("alike", 0.2, 0.3, 0.01, complete=False)
    'not tested'
    """
    if isnan(p) or least > SIGNIFICANCE:
        return NOT_TESTED
    if relation in ("alike", "not above"):
        if p > SIGNIFICANCE:
            return AGREES if complete else NOT_TESTED
        return AGREES if relation == "not above" and difference < 0 else DISAGREES
    is_same = (difference > 0) == (relation == "above")
    return AGREES if p <= SIGNIFICANCE and is_same else DISAGREES


def _judge_values(claim: Claim, pair: Pair, findings: Findings) -> Verdict:
    sides = _values(claim.measure, claim.task, pair, findings)
    if not sides:
        return Verdict()
    first, second = sides[0], sides[-1]
    ours = " against ".join(map(str, sides))
    spread = " against ".join(it.spread for it in sides if it.trials)
    if 1 in (first.trials, second.trials) or not _has_learnt(claim, pair, findings):
        return Verdict(ours, spread)
    agrees = agreement(claim.relation, first, second)
    overlap = max(first.low, second.low) <= min(first.high, second.high)
    if overlap and claim.relation in ("above", "below"):
        spread += ": no difference"
    return Verdict(ours, spread, agrees)


def _judge_test(claim: Claim, pair: Pair, findings: Findings) -> Verdict:
    sides = _values("average score", claim.task, pair, findings)
    if not sides:
        return Verdict()
    names = {side.approach for side in pair if side is not None}
    tests = [it for it in findings.paper_tests if it.task == claim.task]
    test = next(it for it in tests if {it.first, it.second} == names)
    agrees = NOT_TESTED
    if _has_learnt(claim, pair, findings):
        agrees = significance(
            claim.relation,
            sides[0].median - sides[1].median,
            test.p_adjusted,
            statistics.smallest_p(*test.trials),
            complete=min(test.trials) >= published.TRIALS,
        )
    return Verdict(f"{sides[0]} against {sides[1]}", p_text(test.p_adjusted), agrees)


def _judge_correlation(claim: Claim, findings: Findings) -> Verdict:
    ours = next((it for it in findings.correlations if it.task == claim.task), None)
    if ours is None or isnan(ours.tau):
        return Verdict()
    least = statistics.smallest_tau_p(ours.instances)
    complete = ours.instances >= statistics.PAPER_INSTANCES
    agrees = significance(claim.relation, ours.tau, ours.p_adjusted, least, complete)
    return Verdict(f"tau {rounded(ours.tau, 2)}", p_text(ours.p_adjusted), agrees)


def _values(measure: str, task: str, pair: Pair, findings: Findings) -> list[Value]:
    """Both sides of a comparison, or none if one was not run; a constant has 0 trials."""
    keys = [_key(task, side, findings) for side in pair if side not in (None, LONGEST_IN_TRAINING)]
    if any(key not in findings.curves for key in keys):
        return []
    if measure == "average score":
        values = [_average(key, findings) for key in keys]
        return [] if any(isnan(it.median) for it in values) else values
    curves = [findings.solvable_curve(key) for key in keys]
    if len({memory for memory, _, _ in keys}) > 1:
        curves = _comparable(*curves)
    last = findings.study.training_lengths[1]
    constant = [Value(last, last, last, 0)] * (LONGEST_IN_TRAINING in pair)
    return [*map(_length, curves), *constant]


def _key(task: str, side: Side | None, findings: Findings) -> Key:
    assert side is not None
    return str(findings.study.memory_size * (10 if side.extended else 1)), task, side.approach


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


def _average(key: Key, findings: Findings) -> Value:
    averages = 100 * findings.averages_of(key)
    interval = statistics.median_interval(averages)
    return Value(float(np.median(averages)), *interval, len(averages))


def _has_learnt(claim: Claim, pair: Pair, findings: Findings) -> bool:
    """Whether the sides solve their training lengths, unless the paper's do not either.

    A claim about failing at training lengths needs some other approach that solves them.
    """
    approaches = {side.approach for side in pair if side is not None}
    scores = findings.training_scores(claim.task)
    solved = {name for name, score in scores.items() if score >= MASTERED}
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
    sides = [side for side in pair if side is not None]
    values = [paper_value(claim, side) for side in sides]
    if None in values:
        return "a figure only"
    text = " against ".join(rounded(value, 0) for value in values)
    if claim.measure != "significance":
        return text
    first, second = (side.approach for side in sides)
    p = published.pairwise_p(extended=False)
    test = p.get((claim.task, first, second)) or p[claim.task, second, first]
    return f"{text}, {p_text(test)}"


def paper_value(claim: Claim, side: Side) -> Number | None:
    """The printed length, or median in percent, of a side; None if the paper only plots it."""
    key = (claim.task, side.approach)
    if side == LONGEST_IN_TRAINING:
        return published.TRAINING_LENGTHS[1]
    if claim.measure == "maximum length":
        return published.max_lengths(side.extended)[key]
    score = published.average_scores(side.extended).get(key)
    return None if score is None else 100 * score.median


def p_text(p: float) -> str:
    """
    >>> p_text(0.0004), p_text(0.0384)
    ('p < 0.001', 'p = 0.038')
    """
    return "p < 0.001" if p < 0.0005 else f"p = {rounded(p, 3)}"
