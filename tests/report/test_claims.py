"""The paper's claims: what agrees, what does not, and what was not tested."""

from pathlib import Path

import pytest
from scipy.stats import mannwhitneyu

from constrained_dnc.report import Report
from constrained_dnc.report.claims import Verdict, claims, claims_table, judge
from constrained_dnc.report.findings import Findings
from made_up import findings_of

LONGER = "compr+reg processes longer sorts than the stateful baseline"


def judged(findings: Findings, text: str) -> Verdict:
    (claim,) = (claim for claim in claims() if claim.text == text)
    return judge(claim, findings, findings)


def sides(path: Path, task: str, **ends: list[int]) -> Findings:
    names = {
        "both": "compr+reg",
        "stateful": "stateful-baseline",
        "stateless": "stateless-baseline",
    }
    return findings_of(path, task, {"50": {names.get(k, k): v for k, v in ends.items()}})


@pytest.mark.parametrize(
    ("both", "stateful", "agrees", "spread"),
    [
        ([31, 24, 40], [20, 22, 23], "agrees", "[24, 40] against [20, 23]"),
        ([20, 22, 23], [31, 24, 40], "does not", "[20, 23] against [24, 40]"),
        ([31, 20, 40], [20, 22, 23], "does not", "[20, 40] against [20, 23]: no difference"),
        ([31], [20, 22, 23], "not tested", "one trial against [20, 23]"),
        ([31, 32], [3, 4], "not tested", "[31, 32] against [3, 4]"),  # one did not learn
    ],
)
def test_a_longer_input(
    tmp_path: Path, both: list[int], stateful: list[int], agrees: str, spread: str
) -> None:
    verdict = judged(sides(tmp_path, "sort", both=both, stateful=stateful), LONGER)
    assert (verdict.agrees, verdict.spread) == (agrees, spread)


def test_what_was_not_run_is_not_tested(tmp_path: Path) -> None:
    assert judged(sides(tmp_path, "sort", both=[31, 32]), LONGER) == Verdict()


def test_alike_is_within_a_fifth(tmp_path: Path) -> None:
    name = "shift: compr+reg processes inputs about as long as the stateful baseline does"
    near = sides(tmp_path / "near", "shift", both=[16, 16], stateful=[19, 19])
    far = sides(tmp_path / "far", "shift", both=[16, 16], stateful=[30, 30])
    assert [judged(it, name).agrees for it in (near, far)] == ["agrees", "does not"]


LONG, SHORT = [*range(40, 50)], [*range(15, 25)]


@pytest.mark.parametrize(
    ("both", "stateful", "agrees"),
    [
        (LONG, SHORT, "agrees"),
        (SHORT, LONG, "does not"),
        (LONG, LONG, "does not"),
        (LONG[:3], SHORT[:3], "not tested"),  # p is at least 0.1
    ],
)
def test_significance(tmp_path: Path, both: list[int], stateful: list[int], agrees: str) -> None:
    name = "copy: compr+reg scores significantly better than the stateful baseline"
    verdict = judged(sides(tmp_path, "copy", both=both, stateful=stateful), name)
    assert verdict.agrees == agrees
    exact = mannwhitneyu(both, stateful, alternative="two-sided").pvalue
    assert verdict.spread == (f"p = {exact:.3f}" if exact > 0.0005 else "p < 0.001")


def test_a_missing_difference_needs_as_many_trials_as_the_papers(tmp_path: Path) -> None:
    name = (
        "sort: the stateless baseline does not differ significantly from compr, reg and compr+reg"
    )
    for trials, agrees in ((5, "not tested"), (10, "agrees")):
        names = ("stateless", "compr", "reg", "both")
        findings = sides(tmp_path / str(trials), "sort", **dict.fromkeys(names, LONG[:trials]))
        assert judged(findings, name).agrees == agrees


def test_a_claim_about_several_approaches_needs_all_of_them(tmp_path: Path) -> None:
    name = "compr and reg process longer sorts than the stateful baseline"
    ends = {"compr": [30, 31], "stateful": [20, 21]}
    assert judged(sides(tmp_path / "a", "sort", **ends), name).agrees == "not tested"
    both = judged(sides(tmp_path / "b", "sort", **ends, reg=[40, 41]), name)
    assert (both.agrees, both.ours) == ("agrees", "30 against 20; 40 against 20")
    assert judged(sides(tmp_path / "c", "sort", **ends, reg=[17, 18]), name).agrees == "does not"


def test_failing_with_more_slots(tmp_path: Path) -> None:
    name = "sort: the stateless baseline fails with extended memory"
    for folder, trained, larger, agrees in (
        ("fails", [39, 39], [0, 0], "agrees"),
        ("does not", [39, 39], [35, 35], "does not"),
        ("never learnt", [4, 4], [0, 0], "not tested"),
    ):
        ends = {"50": {"stateless-baseline": trained}, "500": {"stateless-baseline": larger}}
        assert judged(findings_of(tmp_path / folder, "sort", ends), name).agrees == agrees


def test_memories_are_compared_at_the_lengths_of_both(tmp_path: Path) -> None:
    name = "sort: the stateful baseline loses with extended memory"
    for larger, ours, agrees in (
        ([20, 20], "20 against 20", "does not"),  # 21 to 24 were not measured with 500 slots
        ([15, 15], "15 against 20", "agrees"),
    ):
        ends = {"50": {"stateful-baseline": [23, 23]}, "500": {"stateful-baseline": larger}}
        verdict = judged(findings_of(tmp_path / agrees, "sort", ends), name)
        assert (verdict.ours, verdict.agrees) == (ours, agrees)


def test_failing_at_training_lengths(tmp_path: Path) -> None:
    name = "logic: the stateless baseline fails even at lengths of training"
    verdict = judged(sides(tmp_path / "a", "logic", stateless=[3, 3], stateful=[20, 20]), name)
    assert (verdict.ours, verdict.agrees) == ("3 against 15", "agrees")
    nobody = sides(tmp_path / "b", "logic", stateless=[3, 3], stateful=[4, 4])
    assert judged(nobody, name).agrees == "not tested"


def test_the_table_has_three_words_and_every_claim(small_report: Report) -> None:
    table = claims_table(small_report.main, small_report.analysed)
    assert table.cells.columns.tolist() == ["paper", "ours", "p or spread", "agrees"]
    assert set(table.cells.index) == {claim.text for claim in claims()}
    assert set(table.cells["agrees"]) <= {"agrees", "does not", "not tested"}
    curvature = table.cells.loc["sort: curvature and score are significantly correlated"]
    assert curvature["paper"] == "tau 0.41, p = 0.001"
    assert curvature["agrees"] != "agrees"  # four instances
