"""The paper's claims: its values, ours, p or spread, and the number of seeds."""

from pathlib import Path

import pytest
from scipy.stats import mannwhitneyu

from constrained_dnc.report import Report
from constrained_dnc.report.claims import Result, claims, claims_table, result_of
from constrained_dnc.report.findings import Findings
from made_up import findings_of

LONGER = "compr+reg processes longer sorts than the stateful baseline"


def result(findings: Findings, text: str) -> Result | None:
    (claim,) = (claim for claim in claims() if claim.text == text)
    return result_of(claim, findings, findings)


def sides(path: Path, task: str, **ends: list[int]) -> Findings:
    names = {
        "both": "compr+reg",
        "stateful": "stateful-baseline",
        "stateless": "stateless-baseline",
    }
    return findings_of(path, task, {"50": {names.get(k, k): v for k, v in ends.items()}})


@pytest.mark.parametrize(
    ("both", "spread", "seeds"),
    [
        ([31, 24, 40], "24 to 40 against 20 to 23", "3 against 3"),
        ([31], "one seed against 20 to 23", "1 against 3"),
        ([31, 3, 40], "3 to 40 against 20 to 23", "3 (1 not learnt) against 3"),
        ([31] * 9, "[31, 31] against 20 to 23", "9 against 3"),  # a bootstrap needs more than five
    ],
)
def test_few_seeds_have_a_range_and_many_an_interval(
    tmp_path: Path, both: list[int], spread: str, seeds: str
) -> None:
    found = result(sides(tmp_path, "sort", both=both, stateful=[20, 22, 23]), LONGER)
    assert found == Result("31 against 22", spread, seeds)


def test_significance_has_the_adjusted_p(tmp_path: Path) -> None:
    both, stateful = [*range(40, 50)], [*range(15, 25)]
    name = "copy: compr+reg scores significantly better than the stateful baseline"
    found = result(sides(tmp_path, "copy", both=both, stateful=stateful), name)
    assert mannwhitneyu(both, stateful, alternative="two-sided").pvalue < 0.0005
    assert found is not None
    assert found.spread == "p < 0.001"


def test_a_claim_needs_all_of_its_cells(tmp_path: Path) -> None:
    name = "compr and reg process longer sorts than the stateful baseline"
    ends = {"compr": [30, 31], "stateful": [20, 21]}
    assert result(sides(tmp_path / "a", "sort", **ends), name) is None
    found = result(sides(tmp_path / "b", "sort", **ends, reg=[40, 41]), name)
    assert found is not None
    assert found.ours == "30 against 20; 40 against 20"


def test_memories_are_compared_at_the_lengths_of_both(tmp_path: Path) -> None:
    name = "sort: the stateful baseline loses with extended memory"
    for larger, ours in (
        ([20, 20], "20 against 20"),  # 21 to 24 were not measured with 500 slots
        ([15, 15], "15 against 20"),
    ):
        ends = {"50": {"stateful-baseline": [23, 23]}, "500": {"stateful-baseline": larger}}
        found = result(findings_of(tmp_path / str(larger[0]), "sort", ends), name)
        assert found is not None
        assert found.ours == ours


def test_failing_at_training_lengths(tmp_path: Path) -> None:
    name = "logic: the stateless baseline fails even at lengths of training"
    found = result(sides(tmp_path, "logic", stateless=[3, 3], stateful=[20, 20]), name)
    assert found == Result("3 against 15", "3 to 3", "2 (2 not learnt)")


def test_the_table_counts_what_was_not_tested(small_report: Report) -> None:
    table = claims_table(small_report.main, small_report.analysed)
    assert table.cells.columns.tolist() == ["paper", "ours", "p or spread", "seeds"]
    assert 0 < len(table.cells) < len(claims())
    assert f"{len(table.cells)} of the paper's {len(claims())} claims" in table.caption
    curvature = table.cells.loc["sort: curvature and score are significantly correlated"]
    assert curvature["paper"] == "tau 0.41, p = 0.001"
    assert curvature["seeds"] == "4"  # instances
