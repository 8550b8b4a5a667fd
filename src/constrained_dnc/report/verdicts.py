"""The paper's claims against what a study found."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np

from constrained_dnc.analysis.statistics import THRESHOLD
from constrained_dnc.report import published
from constrained_dnc.report.findings import Findings
from constrained_dnc.report.published import Claim, Side
from constrained_dnc.report.wording import (
    DASH,
    Number,
    float_of,
    plural,
    rounded,
    signed,
    thousands,
)

MARKS = {True: ("yes", "✓"), False: ("no", "✗"), None: ("open", "·")}
ALIKE = 0.2  # values within a fifth of the larger one count as alike


@dataclass(frozen=True)
class Verdict:
    """One claim, the paper's values, ours, and whether they point the same way.

    word: "same direction", "opposite direction", "no difference" or "not run"; for a claim of
    likeness "no difference" or "difference". `agrees` is None where nothing can be said.
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


def judge_all(findings: Findings) -> list[Verdict]:
    """A verdict for every claim of the paper."""
    taus = {result.task: result.tau for result in findings.correlations()}
    return [
        _judge_correlation(claim, findings, taus)
        if claim.sides is None
        else _judge_sides(claim, claim.sides, findings)
        for claim in published.claims()
    ]


def compare(relation: str, first: Number, second: Number) -> tuple[str, bool | None]:
    """The word for what was found, and whether it is what the paper found.

    >>> compare("above", 31, 22)
    ('same direction', True)
    >>> compare("alike", 16, 17)
    ('no difference', True)
    """
    if relation == "alike":
        alike = abs(first - second) <= ALIKE * max(first, second)
        return ("no difference", True) if alike else ("difference", False)
    if first == second:
        return "no difference", False
    same = (first > second) == (relation == "above")
    return ("same direction", True) if same else ("opposite direction", False)


def _judge_sides(claim: Claim, sides: tuple[Side, Side], findings: Findings) -> Verdict:
    paper = _paper_values(claim, sides)
    keys = [(claim.task, side.approach) for side in sides]
    evaluations = [findings.at(side.extended) for side in sides]
    pairs = list(zip(evaluations, keys, strict=True))
    if any(key not in evaluation.curves for evaluation, key in pairs):
        return Verdict(claim, paper, "", "", "not run", None, "")
    found = [evaluation.longest[key] for evaluation, key in pairs]
    if claim.measure == "maximum length":
        values = [float(longest.length) for longest in found]
        shown = [_with_interval(longest.length, longest.interval) for longest in found]
    else:
        medians = [float(np.median(evaluation.averages[key])) for evaluation, key in pairs]
        shown = [rounded(100 * median, 1) + " %" for median in medians]
        values = [float_of(rounded(100 * median, 1)) for median in medians]
    word, agrees = compare(claim.relation, values[0], values[1])
    counts = sorted({longest.trials for longest in found})
    trials = " and ".join(str(count) for count in counts[:-1]) + (" and " if counts[1:] else "")
    budget = f"{trials}{plural(counts[-1], 'trial')}, {thousands(findings.iterations)} iterations"
    # The side without extension tells whether training got anywhere; so does the better one.
    scores = [findings.plain.longest[key].training_score for key in keys]
    failed = all(score < THRESHOLD for score in scores)  # not if the lengths are unknown (NaN)
    caution = "neither side solves the training lengths, so this says nothing" if failed else ""
    here = " against ".join(shown)
    return Verdict(claim, paper, here, budget, word, agrees, caution)


def _judge_correlation(claim: Claim, findings: Findings, taus: dict[str, float]) -> Verdict:
    paper = f"τ = {signed(published.curvature_correlations()[claim.task][0], 2)}"
    tau = taus.get(claim.task, float("nan"))
    if isnan(tau):
        return Verdict(claim, paper, "", "", "not run", None, "")
    instances = len(findings.instances[claim.task].score)
    budget = f"{plural(instances, 'instance')}, {thousands(findings.iterations)} iterations"
    word, agrees = compare(claim.relation, float_of(rounded(tau, 2)), 0.0)
    return Verdict(claim, paper, f"τ = {signed(tau, 2)}", budget, word, agrees, "")


def _paper_values(claim: Claim, sides: tuple[Side, Side]) -> str:
    shown = []
    for side in sides:
        key = (claim.task, side.approach)
        if claim.measure == "maximum length":
            shown.append(str(published.max_lengths(side.extended)[key]))
        else:
            score = published.average_scores(side.extended).get(key)
            shown.append(DASH if score is None else rounded(100 * score.median, 0) + " %")
    return "shows a figure only" if DASH in shown else " against ".join(shown)


def _with_interval(length: int, interval: tuple[int, int] | None) -> str:
    return str(length) if interval is None else f"{length} [{interval[0]}, {interval[1]}]"
