"""The paper's numbers are complete, and its claims follow from them."""

from itertools import product

import pytest

from constrained_dnc.analysis.statistics import all_pairs
from constrained_dnc.report import published
from constrained_dnc.report.verdicts import compare

KEYS = set(product(published.TASKS, published.APPROACHES))
PAIRS = {(task, *pair) for task in published.TASKS for pair in all_pairs(published.APPROACHES)}


@pytest.mark.parametrize("extended", [False, True])
def test_every_task_and_approach_is_there(extended: bool) -> None:
    assert published.max_lengths(extended).keys() == KEYS
    assert published.average_scores(extended).keys() == KEYS
    assert published.pairwise_p(extended).keys() == PAIRS
    assert tuple(published.BOLD_MEDIANS[extended]) == published.TASKS
    assert tuple(published.curvature_correlations()) == published.TASKS


def test_some_numbers_of_the_printed_tables() -> None:
    assert published.max_lengths(False)["copy", "stateless-baseline"] == 41
    assert published.max_lengths(True)["add", "compr+reg"] == 400
    assert published.average_scores(True)["search", "stateless-baseline"].max == 0.43
    assert published.pairwise_p(False)["shift", "compr", "reg"] == 0.003
    assert published.curvature_correlations()["logic"] == (-0.35, 0.003)


@pytest.mark.parametrize("extended", [False, True])
def test_printed_bold_medians_are_the_largest_or_equal_to_it(extended: bool) -> None:
    scores = published.average_scores(extended)
    for task, bold in published.BOLD_MEDIANS[extended].items():
        best = max(scores[task, approach].median for approach in published.APPROACHES)
        assert scores[task, bold].median == best


@pytest.mark.parametrize("claim", published.claims(), ids=lambda claim: claim.text)
def test_the_papers_numbers_bear_out_its_claims(claim: published.Claim) -> None:
    assert claim.task in published.TASKS
    if claim.sides is None:
        assert claim.measure == "correlation"
        values = [published.curvature_correlations()[claim.task][0], 0.0]
    elif any(side.approach in published.SUPPLEMENT_C for side in claim.sides):
        return  # shown in a figure only
    elif claim.measure == "maximum length":
        values = [published.max_lengths(s.extended)[claim.task, s.approach] for s in claim.sides]
    else:
        scores = [published.average_scores(side.extended) for side in claim.sides]
        values = [
            score[claim.task, side.approach].median
            for score, side in zip(scores, claim.sides, strict=True)
        ]
    assert compare(claim.relation, *values)[1]
