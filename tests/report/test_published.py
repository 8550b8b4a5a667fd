"""The paper's numbers are complete, and its claims follow from them."""

from itertools import combinations, product

import pytest

from constrained_dnc.config import SUPPLEMENT_C
from constrained_dnc.report import published
from constrained_dnc.report.claims import LONGEST_IN_TRAINING, Claim, Side, claims

KEYS = set(product(published.TASKS, published.APPROACHES))
PAIRS = {
    (task, *pair) for task in published.TASKS for pair in combinations(published.APPROACHES, 2)
}

RELATIONS = {row["text"]: row["relation"] for row in published.rows("claims")}


@pytest.mark.parametrize("extended", [False, True])
def test_every_task_and_approach_is_there(extended: bool) -> None:
    assert published.max_lengths(extended).keys() == KEYS
    assert published.average_scores(extended).keys() == KEYS
    assert published.pairwise_p(extended).keys() == PAIRS
    assert tuple(published.bold_medians(extended)) == published.TASKS
    assert tuple(published.curvature_correlations()) == published.TASKS


def test_some_numbers_of_the_printed_tables() -> None:
    assert published.max_lengths(False)["copy", "stateless-baseline"] == 41
    assert published.max_lengths(True)["add", "compr+reg"] == 400
    assert published.average_scores(True)["search", "stateless-baseline"]["max"] == 0.43
    assert published.pairwise_p(False)["shift", "compr", "reg"] == 0.003
    assert published.curvature_correlations()["logic"] == (-0.35, 0.003)


@pytest.mark.parametrize("extended", [False, True])
def test_printed_bold_medians_are_the_largest_or_equal_to_it(extended: bool) -> None:
    scores = published.average_scores(extended)
    for task, bold in published.bold_medians(extended).items():
        best = max(scores[task, approach]["median"] for approach in published.APPROACHES)
        assert scores[task, bold]["median"] == best


def value(claim: Claim, side: Side) -> float:
    """What the paper printed for a side."""
    if side == LONGEST_IN_TRAINING:
        return 15
    key = (claim.task, side.approach)
    if claim.measure == "maximum length":
        return published.max_lengths(side.extended)[key]
    return published.average_scores(side.extended)[key]["median"]


def holds(relation: str, first: float, second: float = 0, p: float | None = None) -> bool:
    """Whether two values stand in a relation: by a test's p-value, or else to within a fifth."""
    is_alike = abs(first - second) <= 0.2 * max(first, second) if p is None else p > 0.05
    is_different = p is None or p <= 0.05
    return {
        "alike": is_alike,
        "above": is_different and first > second,
        "below": is_different and first < second,
        "not above": not (is_different and first > second),
        "fails": first == 0,
    }[relation]


# The text says significant, the table 0.069 (docs/fidelity.md).
CONTRADICTION = "copy: the stateless baseline scores significantly better than the stateful one"


IN_A_FIGURE = {
    ("compr", "above", "lstm-compr"),
    ("reg", "above", "lstm-reg"),
    ("compr+reg", "above", "lstm-compr+reg"),
    ("peephole", "alike", "stateful-baseline"),
    ("compr+reg", "above", "stateful-baseline"),
    ("compr+reg", "above", "peephole"),
}
"""What supplement C says of sort in words and a figure, without numbers."""


def is_printed(claim: Claim) -> bool:
    sides = {side for pair in claim.pairs for side in pair}
    return not {side.approach for side in sides} & set(SUPPLEMENT_C)


def test_claims_without_numbers_are_those_of_supplement_c() -> None:
    unprinted = [claim for claim in claims() if not is_printed(claim)]
    assert {claim.task for claim in unprinted} == {"sort"}
    pairs = [
        (first, RELATIONS[claim.text], second)
        for claim in unprinted
        for first, second in claim.pairs
    ]
    assert not any(first.extended or second.extended for first, _, second in pairs)
    assert {(f.approach, relation, s.approach) for f, relation, s in pairs} == IN_A_FIGURE


@pytest.mark.parametrize("claim", [*filter(is_printed, claims())], ids=lambda claim: claim.text)
def test_the_papers_numbers_bear_out_its_claims(claim: Claim) -> None:
    assert claim.task in published.TASKS
    if not claim.pairs:
        tau, p = published.curvature_correlations()[claim.task]
        is_test = claim.measure.startswith("significance")
        assert holds(RELATIONS[claim.text], tau, 0, p if is_test else None)
    for pair in claim.pairs:
        values = [value(claim, side) for side in pair]
        if claim.measure == "significance":
            known = published.pairwise_p(extended=False)
            names = [side.approach for side in pair]
            p = known.get((claim.task, *names), known.get((claim.task, *names[::-1]), 1.0))
            agrees = holds(RELATIONS[claim.text], *values, p)
            assert agrees is not claim.text.startswith(CONTRADICTION)
        else:
            assert holds(RELATIONS[claim.text], *values)


def test_all_that_the_paper_says_about_significance_is_a_claim() -> None:
    """Counted in the text: pairs called significant, pairs called not, and correlations."""
    counts: dict[str, int] = {}
    for claim in claims():
        if claim.measure.startswith("significance"):
            key = "tau" if not claim.pairs else RELATIONS[claim.text]
            counts[key] = counts.get(key, 0) + max(1, len(claim.pairs))
    above, alike = 3 + 1 + 1 + 1 + 1, 4 * 3
    assert counts == {"above": above, "not above": 3, "alike": alike, "below": 2 * 4, "tau": 7}
