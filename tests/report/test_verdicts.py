"""Verdicts on the paper's claims."""

import json
from pathlib import Path

import pytest
from scipy.stats import mannwhitneyu

from constrained_dnc.report.findings import find
from constrained_dnc.report.verdicts import Verdict, compare, judge_all
from constrained_dnc.study import read_study, write_results
from synthetic import row

NAMES = {
    "both": "compr+reg",
    "compr": "compr",
    "reg": "reg",
    "stateful": "stateful-baseline",
    "stateless": "stateless-baseline",
}


def verdicts(
    path: Path,
    task: str = "sort",
    memory_size: int = 50,
    every: int = 1,
    measured: range = range(2, 61),
    **ends: list[int],
) -> dict[str, Verdict]:
    """Verdicts on a task when the trials of an approach are right up to the given lengths."""
    names = {name: NAMES[name] for name in ends}
    request = {
        "tasks": [task],
        "approaches": list(names.values()),
        "trials": 3,
        "memory_size": 50,
        "extended_memory_size": 500,
        "iterations": 20_000,
        "settings": {"training.min_length": 5, "training.max_length": 15},
    }
    path.mkdir(exist_ok=True)
    (path / "study.json").write_text(json.dumps(request))
    for name, lengths in ends.items():
        for seed, end in enumerate(lengths):
            at_these = [at for at in measured if at % every == 0]
            rows = [row(task, names[name], seed, at, float(at <= end)) for at in at_these]
            changed = {"memory_size": memory_size, "run_id": f"{task}-{name}-{seed}"}
            write_results(path, f"{name}-{seed}-{memory_size}", [r | changed for r in rows])
    return {verdict.claim.text: verdict for verdict in judge_all(find(read_study(path)))}


CLAIM = "compr+reg processes longer sorts than the stateful baseline"


def test_the_sentence(tmp_path: Path) -> None:
    verdict = verdicts(tmp_path, both=[24, 31, 40], stateful=[20, 22, 23])[CLAIM]
    assert verdict.sentence().replace("\u202f", " ") == (
        "compr+reg processes longer sorts than the stateful baseline: paper 48 against 23; here "
        "31 [24, 40] against 22 [20, 23], 3 trials, 20 000 iterations: same direction"
    )


def test_a_study_that_learned_nothing_says_so(tmp_path: Path) -> None:
    verdict = verdicts(tmp_path, both=[3, 3, 3], stateful=[2, 2, 2])[CLAIM]
    assert (verdict.word, verdict.agrees) == ("same direction", True)
    assert "says nothing" in verdict.sentence()


@pytest.mark.parametrize(("both", "stateful"), [(32, 9), (9, 32)])
def test_one_side_that_did_not_learn_leaves_the_direction_undecided(
    tmp_path: Path, both: int, stateful: int
) -> None:
    verdict = verdicts(tmp_path, both=[both], stateful=[stateful])[CLAIM]
    assert verdict.word == ("same direction" if both > stateful else "opposite direction")
    poor = "stateful-baseline" if both > stateful else "compr+reg"
    told = f"undecided: by the rule unseen {poor} does not solve its training lengths"
    assert (verdict.kind, verdict.mark, verdict.caution) == ("open", "·", told)
    assert verdict.sentence().endswith(f"direction ({told})")


def test_a_side_that_fails_in_the_paper_too_leaves_nothing_open(tmp_path: Path) -> None:
    name = "logic: the stateless baseline processes only shorter inputs than the stateful one"
    found = verdicts(tmp_path, "logic", stateless=[3], stateful=[20])[name]
    assert (found.word, found.kind, found.caution) == ("same direction", "yes", "")
    found = verdicts(tmp_path / "b", "logic", stateless=[20], stateful=[3])[name]
    assert "stateful-baseline does not solve its training lengths" in found.caution


def test_the_shipped_baseline_that_did_not_learn_decides_nothing() -> None:
    study = read_study(Path(__file__).parents[2] / "results" / "paper-100k")
    unseen, score = (
        {verdict.claim.text: verdict for verdict in judge_all(find(study, rule))}[CLAIM]
        for rule in ("unseen", "score")
    )
    assert (unseen.word, unseen.kind) == ("same direction", "open")
    assert (score.word, score.kind) == ("same direction", "yes")


def test_not_run_and_one_trial(tmp_path: Path) -> None:
    found = verdicts(tmp_path, both=[31])
    assert found[CLAIM].sentence() == f"{CLAIM}: paper 48 against 23: not run"
    assert {verdict.word for verdict in found.values()} == {"not run"}
    verdict = verdicts(tmp_path, stateful=[40])[CLAIM]
    assert "here 31 against 40, 1 trial, " in verdict.sentence()
    assert (verdict.word, verdict.agrees) == ("opposite direction", False)


@pytest.mark.parametrize(
    ("relation", "first", "second", "word", "agrees"),
    [
        ("above", 3, 2, "same direction", True),
        ("above", 2, 3, "opposite direction", False),
        ("below", 2, 3, "same direction", True),
        ("below", 3, 3, "no difference", False),
        ("alike", 16, 16, "no difference", True),
        ("alike", 40, 20, "difference", False),
        ("alike", 0, 0, "no difference", True),
    ],
)
def test_words(relation: str, first: float, second: float, word: str, agrees: bool) -> None:
    assert compare(relation, first, second) == (word, agrees)


def test_curvature_signs(small_study: Path) -> None:
    found = judge_all(find(read_study(small_study)))
    told = [verdict for verdict in found if verdict.claim.measure == "correlation"]
    assert {verdict.claim.task for verdict in told if verdict.word != "not run"} == {
        "sort",
        "search",
    }
    assert "4 instances" in next(v.budget for v in told if v.claim.task == "sort")


SIGNIFICANT = "copy: compr+reg scores significantly better than the stateful baseline"
LONG, SHORT = [*range(40, 50)], [*range(15, 25)]


@pytest.mark.parametrize(
    ("both", "stateful", "word", "agrees", "told"),
    [
        (LONG, SHORT, "significant", True, ""),
        (SHORT, LONG, "significant the other way", False, ""),
        (LONG, LONG, "not significant", False, ""),
        (LONG[:4], SHORT[:4], "significant", True, ""),
        (LONG[:4], LONG[:4], "not significant", None, "fewer trials than the paper's 10"),
        (LONG[:3], SHORT[:3], "too few trials", None, "3 against 3 trials p is at least 0.1"),
    ],
)
def test_significance_needs_trials(
    tmp_path: Path, both: list[int], stateful: list[int], word: str, agrees: bool | None, told: str
) -> None:
    found = verdicts(tmp_path, "copy", both=both, stateful=stateful)[SIGNIFICANT]
    assert (found.word, found.agrees) == (word, agrees)
    assert told in found.caution
    assert bool(told) == bool(found.caution)
    exact = mannwhitneyu(both, stateful, alternative="two-sided").pvalue
    if exact > 0.0005:
        assert f"p = {exact:.3f}" in found.here


NOT_SIGNIFICANT = (
    "differentiation: compr, reg and compr+reg do not score significantly better than the "
    "stateful baseline"
)


def test_a_claim_about_several_approaches_names_those_that_differ(tmp_path: Path) -> None:
    ends = {"compr": LONG, "reg": SHORT, "both": SHORT, "stateful": SHORT}
    found = verdicts(tmp_path, "differentiation", **ends)[NOT_SIGNIFICANT]
    assert found.word == "significant (compr), not significant (reg and compr+reg)"
    assert (found.agrees, found.kind) == (False, "no")
    worse = {"compr": SHORT, "reg": SHORT, "both": SHORT, "stateful": LONG}
    found = verdicts(tmp_path / "a", "differentiation", **worse)[NOT_SIGNIFICANT]
    assert (found.word, found.kind) == ("significant the other way", "yes")
    partial = verdicts(tmp_path / "b", "differentiation", reg=SHORT, stateful=SHORT)
    assert partial[NOT_SIGNIFICANT].word == "not significant"
    assert "2 comparisons of 3 not run" in partial[NOT_SIGNIFICANT].caution


def test_failing_with_extended_memory(tmp_path: Path) -> None:
    name = "search: every approach fails with extended memory"
    verdicts(tmp_path, "search", both=[20, 20], stateful=[20, 20])
    found = verdicts(tmp_path, "search", 500, both=[0, 0], stateful=[30, 30])[name]
    assert found.word == "does not fail (stateful-baseline), fails too (compr+reg)"
    found = verdicts(tmp_path, "search", 500, both=[0, 0], stateful=[0, 0])[name]
    assert (found.word, found.agrees) == ("fails too", True)


def test_failing_with_extended_memory_is_no_mere_loss(tmp_path: Path) -> None:
    name = "sort: the stateless baseline fails with extended memory"
    verdicts(tmp_path, stateless=[39])
    assert verdicts(tmp_path, memory_size=500, stateless=[35])[name].word == "does not fail"
    found = verdicts(tmp_path, memory_size=500, stateless=[0])[name]
    assert (found.word, found.kind) == ("fails too", "yes")
    verdicts(tmp_path, stateless=[4], stateful=[20])  # fails with any memory
    found = verdicts(tmp_path, memory_size=500, stateless=[0])[name]
    assert found.kind == "open"
    assert "stateless-baseline does not solve its training lengths" in found.caution


def test_a_difference_of_grids_is_no_loss(tmp_path: Path) -> None:
    name = "sort: the stateful baseline loses with extended memory"
    verdicts(tmp_path, stateful=[23])
    found = verdicts(tmp_path, memory_size=500, every=5, stateful=[23])[name]
    assert (found.here, found.word, found.kind) == ("20 against 23", "same direction", "open")
    assert found.caution == "at the lengths that were evaluated with both memories 20 against 20"
    found = verdicts(tmp_path, memory_size=500, every=5, stateful=[19])[name]
    assert (found.here, found.kind) == ("15 against 23", "yes")


def test_lengths_that_the_memory_of_training_was_not_evaluated_at_are_no_gain(
    tmp_path: Path,
) -> None:
    name = "copy: compr+reg with extended memory processes longer inputs than without"
    verdicts(tmp_path, "copy", measured=range(2, 31), both=[30])
    found = verdicts(tmp_path, "copy", memory_size=500, every=5, both=[60])[name]
    assert (found.here, found.word, found.kind) == ("60 against 30", "same direction", "open")
    assert found.caution == "at the lengths that were evaluated with both memories 30 against 30"
    verdicts(tmp_path, "copy", measured=range(2, 31), both=[29])
    assert verdicts(tmp_path, "copy", memory_size=500, every=5, both=[60])[name].kind == "yes"


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("sort", "compr+reg sorts better on average than the stateful baseline"),
        ("copy", "copy: compr+reg scores significantly better than the stateful baseline"),
    ],
)
def test_averages_without_their_lengths_decide_nothing(
    tmp_path: Path, task: str, name: str
) -> None:
    ends = {"both": [60] * 10, "stateful": [55] * 10}
    found = verdicts(tmp_path, task, measured=range(50, 61), **ends)[name]
    assert (found.word, found.agrees) == ("not run", None)
    assert found.caution == "not evaluated at the lengths of the average"


def test_failing_at_lengths_of_training(tmp_path: Path) -> None:
    name = "logic: the stateless baseline fails even at lengths of training"
    found = verdicts(tmp_path, "logic", stateless=[3], stateful=[20])[name]
    assert (found.word, found.agrees, found.caution) == ("same direction", True, "")
    assert found.here == "3 against 15 in training"
    found = verdicts(tmp_path / "b", "logic", stateless=[3], stateful=[4])[name]
    assert "says nothing" in found.caution  # nobody learned anything


def test_few_instances_prove_no_missing_correlation(small_study: Path) -> None:
    name = "sort: curvature and score are significantly correlated"
    found = {v.claim.text: v for v in judge_all(find(read_study(small_study)))}[name]
    assert found.paper == "τ = +0.41, p = 0.001"
    assert found.word == "not significant"
    assert "fewer instances than the paper's 40" in found.caution
