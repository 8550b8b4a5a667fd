"""The paper's claims in one table: its values, ours, their spread or p, and whether they agree.

A claim is tested if both sides have at least two trials and have learnt: solve their training
lengths, unless the paper's do not either. A difference within the spread of the trials, that is with
overlapping 95 % bootstrap intervals, is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
import pandas as pd

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.analysis.statistics import SIGNIFICANCE
from constrained_dnc.published import LONGEST_IN_TRAINING, MASTERED, Claim, Side
from constrained_dnc.report.findings import Findings, Key
from constrained_dnc.report.tables import DASH, Table, make_table, percent, rounded

AGREES, DISAGREES, NOT_TESTED = "agrees", "does not", "not tested"
ALIKE = 0.2
"""Values within a fifth of the larger one count as alike: the paper gives no limit."""
CAPTION = (
    "By the rule {rule}. In brackets the spread of the trials: the 95 % bootstrap interval. A claim "
    "does not agree if the difference lies the other way or within the spread. Not tested: not run, "
    "one trial, too few trials for any p of at most 0.05, or training lengths that are not solved."
)


@dataclass(frozen=True)
class Value:
    """One side of a comparison: a length or a score in percent, and its interval over trials."""

    value: float
    low: float
    high: float
    trials: int

    def __str__(self) -> str:
        return rounded(self.value, 0)

    @property
    def spread(self) -> str:
        return (
            f"[{rounded(self.low, 0)}, {rounded(self.high, 0)}]" if self.trials > 1 else "one trial"
        )


@dataclass(frozen=True)
class Verdict:
    """Ours, its spread or p, and whether it agrees."""

    ours: str
    spread: str
    agrees: str


def claims_table(findings: Findings, analysed: Findings) -> Table:
    """One line per claim, those that were tested first; `analysed` has the rule whose states were analysed."""
    judged = [(claim, judge(claim, findings, analysed)) for claim in published.claims()]
    words = (AGREES, DISAGREES, NOT_TESTED)
    judged.sort(key=lambda it: (words.index(it[1].agrees), it[1].ours == DASH))
    lines = []
    for claim, verdict in judged:
        values = {"paper": paper_value(claim), "ours": verdict.ours}
        values |= {"p or spread": verdict.spread, "agrees": verdict.agrees}
        lines += [(claim.text, column, text) for column, text in values.items()]
    frame = pd.DataFrame(lines, columns=["claim", "column", "text"])
    return make_table(
        "claims",
        "The paper's claims",
        CAPTION.format(rule=findings.selection),
        frame.assign(value=frame["text"]),
        ["claim"],
        "column",
    )


def judge(claim: Claim, findings: Findings, analysed: Findings) -> Verdict:
    """Whether a study agrees with a claim."""
    if not claim.pairs:
        return _judge_correlation(claim, analysed)
    judge_pair = _judge_test if claim.measure == "significance" else _judge_values
    verdicts = [judge_pair(claim, pair, findings) for pair in claim.pairs]
    found = [verdict for verdict in verdicts if verdict.ours]
    answers = {verdict.agrees for verdict in verdicts}
    agrees = next(word for word in (DISAGREES, NOT_TESTED, AGREES) if word in answers)
    ours, spread = ("; ".join(getattr(it, part) for it in found) for part in ("ours", "spread"))
    return Verdict(ours or DASH, spread or DASH, agrees)


def agreement(relation: str, first: Value, second: Value) -> str:
    """Whether two values stand in the relation that the paper claims.

    >>> agreement("above", Value(31, 28, 33, 3), Value(22, 20, 23, 3))
    'agrees'
    >>> agreement("above", Value(31, 15, 33, 3), Value(22, 20, 23, 3))
    'does not'
    """
    if relation == "fails":
        return AGREES if first.value == 0 else DISAGREES
    if relation == "alike":
        is_alike = abs(first.value - second.value) <= ALIKE * max(first.value, second.value)
        return AGREES if is_alike else DISAGREES
    higher, lower = (first, second) if relation == "above" else (second, first)
    return AGREES if higher.low > lower.high else DISAGREES


def significance(relation: str, difference: float, p: float, least: float, complete: bool) -> str:
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


# values -------------------------------------------------------------------------------------------


def _judge_values(claim: Claim, pair: tuple[Side, Side | None], findings: Findings) -> Verdict:
    sides = _values(claim, pair, findings)
    if sides is None:
        return Verdict("", "", NOT_TESTED)
    first, second = sides
    shown = [first] if pair[1] is None else [first, second]
    ours = " against ".join(map(str, shown))
    spread = " against ".join(it.spread for it in shown if it.trials)
    if min(it.trials or 2 for it in shown) < 2 or not _has_learnt(claim, pair, findings):
        return Verdict(ours, spread, NOT_TESTED)
    agrees = agreement(claim.relation, first, second)
    if agrees == DISAGREES and claim.relation in ("above", "below") and _overlap(first, second):
        spread += ": no difference"
    return Verdict(ours, spread, agrees)


def _overlap(first: Value, second: Value) -> bool:
    return max(first.low, second.low) <= min(first.high, second.high)


def _values(
    claim: Claim, pair: tuple[Side, Side | None], findings: Findings
) -> tuple[Value, Value] | None:
    """Both sides; None if one was not run. Nothing, and a constant, have 0 trials."""
    keys = [_key(claim.task, side, findings) for side in pair]
    if any(key is not None and key not in findings.curves for key in keys):
        return None
    if claim.measure == "average score":
        values = [Value(0, 0, 0, 0) if key is None else _average(key, findings) for key in keys]
        return None if any(isnan(it.value) for it in values) else (values[0], values[1])
    last = findings.study.training_lengths[1]
    constant = Value(last, last, last, 0) if pair[1] == LONGEST_IN_TRAINING else Value(0, 0, 0, 0)
    first, second = keys
    assert first is not None
    if second is None:
        return _length(findings.solvable_curve(first)), constant
    curves = findings.solvable_curve(first), findings.solvable_curve(second)
    if first[0] != second[0]:
        curves = _comparable(*curves)
    return _length(curves[0]), _length(curves[1])


def _key(task: str, side: Side | None, findings: Findings) -> Key | None:
    if side is None or side == LONGEST_IN_TRAINING:
        return None
    size = findings.study.memory_size
    return str(10 * size if side.extended else size), task, side.approach


def _comparable(larger: pd.DataFrame, trained: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two memories at the lengths that both were evaluated at.

    All lengths of the larger one count where the memory of training was seen to fail.
    """
    shared = larger.columns.intersection(trained.columns)
    has_failed = _length(trained).value < trained.columns.max()
    return larger if has_failed else larger[shared], trained[shared]


def _length(curve: pd.DataFrame) -> Value:
    scores, lengths = curve.to_numpy(), curve.columns.to_numpy()
    length = statistics.max_length(scores, lengths)
    low, high = statistics.max_length_interval(scores, lengths) or (length, length)
    return Value(length, low, high, len(scores))


def _average(key: Key, findings: Findings) -> Value:
    """The median of the average scores in percent."""
    averages = 100 * findings.averages_of(key)
    low, high = statistics.median_interval(averages)
    return Value(float(np.median(averages)), low, high, len(averages))


def _has_learnt(claim: Claim, pair: tuple[Side, Side | None], findings: Findings) -> bool:
    """Whether the sides solve their training lengths, or the paper's do not either.

    For a claim about failing it is enough that some approach solves them, the one that fails with
    more slots among them.
    """
    scores = findings.lengths.xs(findings.trained_memory, level="memory")["training_score"]
    solved = {name for name, score in scores.get(claim.task, {}).items() if not score < MASTERED}
    approaches = {side.approach for side in pair if side not in (None, LONGEST_IN_TRAINING)}
    if claim.relation == "fails" or LONGEST_IN_TRAINING in pair:
        poor = approaches - solved if claim.relation == "fails" else set()
        return bool(solved) and not {name for name in poor if not _fails_in_paper(claim.task, name)}
    return bool(approaches & solved) and all(
        name in solved or _fails_in_paper(claim.task, name) for name in approaches
    )


def _fails_in_paper(task: str, approach: str) -> bool:
    length = published.max_lengths(extended=False).get((task, approach))
    return length is not None and length < published.TRAINING_LENGTHS[1]


# tests --------------------------------------------------------------------------------------------


def _judge_test(claim: Claim, pair: tuple[Side, Side | None], findings: Findings) -> Verdict:
    sides = _values(_as_average(claim), pair, findings)
    if sides is None or pair[1] is None:
        return Verdict("", "", NOT_TESTED)
    names = (pair[0].approach, pair[1].approach)
    tests = findings.paper_tests
    test = next(it for it in tests if it.task == claim.task and {it.first, it.second} == {*names})
    least = statistics.smallest_p(*test.trials)
    agrees = NOT_TESTED
    if _has_learnt(claim, pair, findings):
        complete = min(test.trials) >= published.TRIALS
        difference = sides[0].value - sides[1].value
        agrees = significance(claim.relation, difference, test.p_adjusted, least, complete)
    return Verdict(f"{sides[0]} against {sides[1]} %", p_text(test.p_adjusted), agrees)


def _as_average(claim: Claim) -> Claim:
    return Claim(claim.topic, claim.text, claim.task, "average score", "above", claim.pairs)


def _judge_correlation(claim: Claim, findings: Findings) -> Verdict:
    found = next((it for it in findings.correlations if it.task == claim.task), None)
    if found is None or isnan(found.tau):
        return Verdict(DASH, DASH, NOT_TESTED)
    least = statistics.smallest_tau_p(found.instances)
    complete = found.instances >= statistics.PAPER_INSTANCES
    agrees = significance(claim.relation, found.tau, found.p_adjusted, least, complete)
    return Verdict(f"tau {rounded(found.tau, 2)}", p_text(found.p_adjusted), agrees)


# the paper ----------------------------------------------------------------------------------------


def paper_value(claim: Claim) -> str:
    """The paper's values for a claim."""
    if not claim.pairs:
        tau, p = published.curvature_correlations()[claim.task]
        return f"tau {rounded(tau, 2)}, {p_text(p)}"
    return "; ".join(_paper_pair(claim, pair) for pair in claim.pairs)


def _paper_pair(claim: Claim, pair: Sequence[Side | None]) -> str:
    values = [_paper_side(claim, side) for side in pair if side is not None]
    if DASH in values:
        return "a figure only"
    text = " against ".join(values)
    if claim.measure != "significance":
        return text
    known = published.pairwise_p(extended=False)
    names = [side.approach for side in pair if side is not None]
    p = known.get((claim.task, names[0], names[1]), known.get((claim.task, names[1], names[0])))
    return f"{text}, {DASH if p is None else p_text(p)}"


def _paper_side(claim: Claim, side: Side) -> str:
    if side == LONGEST_IN_TRAINING:
        return str(published.TRAINING_LENGTHS[1])
    if claim.measure == "maximum length":
        return str(published.max_lengths(side.extended)[claim.task, side.approach])
    score = published.average_scores(side.extended).get((claim.task, side.approach))
    return DASH if score is None else percent(score.median)


def p_text(p: float) -> str:
    """
    >>> p_text(0.0004), p_text(0.0384)
    ('p < 0.001', 'p = 0.038')
    """
    return "p < 0.001" if p < 0.0005 else f"p = {rounded(p, 3)}"
