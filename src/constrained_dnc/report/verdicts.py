"""The paper's claims against what a study found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.analysis.statistics import PAPER_INSTANCES, SIGNIFICANCE
from constrained_dnc.published import LONGEST_IN_TRAINING, MASTERED, Claim, Side
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.lengths import comparable_lengths
from constrained_dnc.report.wording import (
    DASH,
    Number,
    float_of,
    listed,
    plural,
    rounded,
    signed,
)

MARKS = {True: ("yes", "✓"), False: ("no", "✗"), None: ("open", "·")}
ALIKE = 0.2  # values within a fifth of the larger one count as alike
NOT_RUN = "not run"
UNLEARNED = "the training lengths are not solved, so this says nothing"
UNMEASURED = "not evaluated at the lengths of the average"


@dataclass(frozen=True)
class Verdict:
    """One claim, the paper's values, ours, and whether they point the same way.

    word: "same direction", "opposite direction", "no difference" or "not run"; for a claim of
    likeness "no difference" or "difference"; for one of failure "fails too" or "does not fail";
    for one of significance "significant", "significant the other way", "not significant" or "too
    few trials". A claim about several approaches may have several words. `agrees` is None where
    nothing can be said.
    """

    claim: Claim
    paper: str
    here: str
    budget: str
    word: str
    agrees: bool | None
    caution: str

    @property
    def kind(self) -> str:
        """How the page shows it: yes, no or open."""
        return MARKS[None if self.caution else self.agrees][0]

    @property
    def mark(self) -> str:
        return MARKS[None if self.caution else self.agrees][1]

    def sentence(self) -> str:
        values = f"paper {self.paper}; here {self.here}" if self.here else f"paper {self.paper}"
        budget = f", {self.budget}" if self.budget else ""
        caution = f" ({self.caution})" if self.caution else ""
        return f"{self.claim.text}: {values}{budget}: {self.word}{caution}"


@dataclass(frozen=True)
class Judged:
    """One pair of a claim: our values in words, and what they say."""

    name: str  # of the side that differs between the pairs
    here: str
    word: str
    agrees: bool | None
    caution: str


def judge_all(findings: Findings) -> list[Verdict]:
    """A verdict for every claim of the paper."""
    tests = {
        (test.task, *pair): test
        for test in findings.pair_tests(extended=False)
        for pair in ((test.first, test.second), (test.second, test.first))
    }
    correlations = {result.task: result for result in findings.correlations()}
    return [
        _judge_pairs(claim, findings, tests)
        if claim.pairs
        else _judge_correlation(claim, findings, correlations.get(claim.task))
        for claim in published.claims()
    ]


def compare(relation: str, first: Number, second: Number) -> tuple[str, bool | None]:
    """The word for what was found, and whether it is what the paper found.

    >>> compare("above", 31, 22)
    ('same direction', True)
    >>> compare("alike", 16, 17)
    ('no difference', True)
    """
    if relation == "fails":
        return ("fails too", True) if first == 0 else ("does not fail", False)
    if relation == "alike":
        alike = abs(first - second) <= ALIKE * max(first, second)
        return ("no difference", True) if alike else ("difference", False)
    if first == second:
        return "no difference", False
    same = (first > second) == (relation == "above")
    return ("same direction", True) if same else ("opposite direction", False)


def weigh(
    relation: str, difference: Number, p: float, least: float, is_enough: bool
) -> tuple[str, bool | None]:
    """The word for a test, and whether it came out as the paper's; `least` is the smallest p.

    With fewer trials than the paper's (not `is_enough`) a missing significance proves nothing.

    >>> weigh("above", 0.2, 0.01, 0.001, is_enough=True)
    ('significant', True)
    >>> weigh("alike", 0.2, 0.3, 0.1, is_enough=False)
    ('too few trials', None)
    """
    if isnan(p) or least > SIGNIFICANCE:
        return "too few trials", None
    if p > SIGNIFICANCE:
        return "not significant", (relation in ("alike", "not above")) if is_enough else None
    if relation == "alike":
        return "significant", False
    if relation == "not above":
        return ("significant", False) if difference > 0 else ("significant the other way", True)
    same = (difference > 0) == (relation == "above")
    return ("significant", True) if same else ("significant the other way", False)


def _judge_pairs(
    claim: Claim, findings: Findings, tests: dict[tuple[str, str, str], statistics.PairTest]
) -> Verdict:
    paper = _paper_values(claim)
    pairs = [pair for pair in claim.pairs if _has_run(claim.task, pair, findings)]
    if not pairs:
        return Verdict(claim, paper, "", "", NOT_RUN, None, "")
    if claim.measure == "significance":
        judged = [_judge_test(claim, pair, findings, tests) for pair in pairs]
    else:
        judged = [_judge_values(claim, pair, findings) for pair in pairs]
    answers = {part.agrees for part in judged}
    agrees = False if False in answers else None if None in answers else True
    cautions = dict.fromkeys(part.caution for part in judged if part.caution)
    if len(pairs) < len(claim.pairs):
        missing = plural(len(claim.pairs) - len(pairs), "comparison")
        cautions[f"{missing} of {len(claim.pairs)} not run"] = None
    here = "; ".join(part.here for part in judged)
    budget = _budget(claim, pairs, findings)
    return Verdict(claim, paper, here, budget, _words(judged), agrees, "; ".join(cautions))


def _words(judged: Sequence[Judged]) -> str:
    """One word if all pairs have the same, else which has which."""
    names: dict[str, list[str]] = {}
    for part in judged:
        names.setdefault(part.word, []).append(part.name)
    if len(names) == 1:
        return judged[0].word
    return ", ".join(f"{word} ({listed(of)})" for word, of in names.items())


def _has_run(task: str, pair: tuple[Side, Side | None], findings: Findings) -> bool:
    for side in pair:
        if side == LONGEST_IN_TRAINING:
            if findings.study.training_lengths is None:
                return False
        elif side and (task, side.approach) not in findings.at(side.extended).curves:
            return False
    return True


def _judge_values(claim: Claim, pair: tuple[Side, Side | None], findings: Findings) -> Judged:
    shown, values = [], []
    for side in pair:
        if side is None:
            values.append(0.0)
            continue
        value, text = _value(claim, side, findings)
        values.append(value)
        shown.append(text)
    name, here = _name(claim, pair), " against ".join(shown)
    if any(map(isnan, values)):
        return Judged(name, here, NOT_RUN, None, UNMEASURED)
    word, agrees = compare(claim.relation, values[0], values[1])
    caution = _caution(claim, pair, findings) or _caution_of_grids(claim, pair, findings, word)
    return Judged(name, here, word, agrees, caution)


def _value(claim: Claim, side: Side, findings: Findings) -> tuple[float, str]:
    """A side's maximum length or average score, as a number and in words."""
    if side == LONGEST_IN_TRAINING:
        assert findings.study.training_lengths is not None
        longest = findings.study.training_lengths[1]
        return float(longest), f"{longest} in training"
    evaluation, key = findings.at(side.extended), (claim.task, side.approach)
    if claim.measure == "maximum length":
        found = evaluation.longest[key]
        return float(found.length), _with_interval(found.length, found.interval)
    printed = rounded(100 * float(np.median(evaluation.averages[key])), 1)
    return float_of(printed), f"{printed} %"


def _judge_test(
    claim: Claim,
    pair: tuple[Side, Side | None],
    findings: Findings,
    tests: dict[tuple[str, str, str], statistics.PairTest],
) -> Judged:
    first, second = pair
    assert second is not None
    test = tests[claim.task, first.approach, second.approach]
    medians = [
        float(np.median(findings.plain.averages[claim.task, side.approach]))
        for side in (first, second)
    ]
    least = statistics.smallest_p(*test.trials)
    is_enough = min(test.trials) >= published.TRIALS
    word, agrees = weigh(claim.relation, medians[0] - medians[1], test.p_adjusted, least, is_enough)
    caution = _caution(claim, pair, findings)
    if word == "too few trials":
        sizes = f"{test.trials[0]} against {test.trials[1]} trials"
        caution = f"with {sizes} p is at least {least:.2g}, whatever the scores are"
    elif agrees is None:
        caution = f"fewer trials than the paper's {published.TRIALS} may miss a difference"
    scores = " against ".join(rounded(100 * median, 1) + " %" for median in medians)
    if any(map(isnan, medians)):
        word, agrees, caution = NOT_RUN, None, UNMEASURED
    return Judged(_name(claim, pair), f"{_p(test.p_adjusted)}, {scores}", word, agrees, caution)


def _caution(claim: Claim, pair: tuple[Side, Side | None], findings: Findings) -> str:
    """Whether training got anywhere: who does not solve its lengths, without extension.

    Where failing is the claim, it is enough that some approach solves them, the one that fails
    with more slots among them, unless the paper's does not either.
    """
    of_task = [name for task, name in findings.plain.longest if task == claim.task]
    is_about_failing = claim.relation == "fails" or LONGEST_IN_TRAINING in pair
    sides = of_task if is_about_failing else [side.approach for side in pair if side is not None]
    compared = [name for name in dict.fromkeys(sides) if name in of_task]
    failed = [name for name in compared if _is_unlearned(claim.task, name, findings)]
    if failed and failed == compared:
        return UNLEARNED
    failed = [name for name in failed if not _fails_in_paper(claim.task, name)]
    if claim.relation == "fails":  # what fails in any case shows no failure with more slots
        failed = [name for name in failed if name == pair[0].approach]
    elif is_about_failing:
        return ""
    if not failed:
        return ""
    return (
        f"undecided: by the rule {findings.selection} {listed(failed)} does not solve its "
        "training lengths"
    )


def _caution_of_grids(
    claim: Claim, pair: tuple[Side, Side | None], findings: Findings, word: str
) -> str:
    """Whether two memories differ only because one was evaluated at fewer lengths."""
    first, second = pair
    if claim.measure != "maximum length" or second is None or second == LONGEST_IN_TRAINING:
        return ""
    if not first.extended or second.extended:
        return ""
    larger, trained = (
        findings.at(side.extended).curves[claim.task, side.approach] for side in (first, second)
    )
    longest = findings.extended.longest[claim.task, first.approach].length
    before, after = comparable_lengths(trained, larger, longest)
    if compare(claim.relation, after, before)[0] == word:
        return ""
    return f"at the lengths that were evaluated with both memories {after} against {before}"


def _is_unlearned(task: str, approach: str, findings: Findings) -> bool:
    # An unknown score (NaN) is not below the threshold.
    return findings.plain.longest[task, approach].training_score < MASTERED


def _fails_in_paper(task: str, approach: str) -> bool:
    """Whether the paper's, too, does not get through its training lengths."""
    length = published.max_lengths(extended=False).get((task, approach))
    return length is not None and length < published.TRAINING_LENGTHS[1]


def _name(claim: Claim, pair: tuple[Side, Side | None]) -> str:
    """The approach that tells a pair from the others of its claim."""
    is_first = len({first for first, _ in claim.pairs}) > 1
    side = pair[0] if is_first or pair[1] is None else pair[1]
    return side.approach


def _budget(claim: Claim, pairs: Sequence[tuple[Side, Side | None]], findings: Findings) -> str:
    sides = [
        (findings.at(side.extended), (claim.task, side.approach))
        for pair in pairs
        for side in pair
        if side is not None and side != LONGEST_IN_TRAINING
    ]
    counts = sorted({evaluation.longest[key].trials for evaluation, key in sides})
    trials = "".join(f"{count} and " for count in counts[:-1])
    trained = findings.trained(key for _, key in sides)
    return f"{trials}{plural(counts[-1], 'trial')}, {trained}"


def _judge_correlation(
    claim: Claim, findings: Findings, result: statistics.Correlation | None
) -> Verdict:
    tau, p = published.curvature_correlations()[claim.task]
    is_test = claim.measure == "significance of correlation"
    paper = f"τ = {signed(tau, 2)}" + (f", {_p(p)}" if is_test else "")
    if result is None or isnan(result.tau):
        return Verdict(claim, paper, "", "", NOT_RUN, None, "")
    here = f"τ = {signed(result.tau, 2)}" + (f", {_p(result.p_adjusted)}" if is_test else "")
    pooled = [(claim.task, name) for name in findings.instances[claim.task].approaches]
    budget = f"{plural(result.instances, 'instance')}, {findings.trained(pooled)}"
    if not is_test:
        word, agrees = compare(claim.relation, float_of(rounded(result.tau, 2)), 0.0)
        return Verdict(claim, paper, here, budget, word, agrees, "")
    least = statistics.smallest_tau_p(result.instances)
    is_enough = result.instances >= PAPER_INSTANCES
    word, agrees = weigh(claim.relation, result.tau, result.p_adjusted, least, is_enough)
    caution = ""
    if word == "too few trials":
        caution = f"with {plural(result.instances, 'instance')} p is at least {least:.2g}"
    elif agrees is None:
        caution = f"fewer instances than the paper's {PAPER_INSTANCES} may miss a correlation"
    return Verdict(claim, paper, here, budget, word, agrees, caution)


def _paper_values(claim: Claim) -> str:
    shown = []
    for pair in claim.pairs:
        values = [_paper_value(claim, side) for side in pair if side is not None]
        if DASH in values:
            return "shows a figure only"
        text = " against ".join(values)
        if claim.measure == "significance":
            p = _paper_p(claim.task, pair)
            text = f"{DASH if p is None else _p(p)}, {text}"
        shown.append(text)
    return "; ".join(shown)


def _paper_value(claim: Claim, side: Side) -> str:
    if side == LONGEST_IN_TRAINING:
        return f"{published.TRAINING_LENGTHS[1]} in training"
    key = (claim.task, side.approach)
    if claim.measure == "maximum length":
        return str(published.max_lengths(side.extended)[key])
    score = published.average_scores(side.extended).get(key)
    return DASH if score is None else rounded(100 * score.median, 0) + " %"


def _paper_p(task: str, pair: tuple[Side, Side | None]) -> float | None:
    first, second = pair
    if second is None:
        return None
    known = published.pairwise_p(extended=False)
    names = first.approach, second.approach
    return known.get((task, *names), known.get((task, *names[::-1])))


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.0005 else f"p = {rounded(p, 3)}"


def _with_interval(length: int, interval: tuple[int, int] | None) -> str:
    return str(length) if interval is None else f"{length} [{interval[0]}, {interval[1]}]"
