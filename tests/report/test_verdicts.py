"""Verdicts on the paper's claims."""

import json
from pathlib import Path

import pytest

from constrained_dnc.report.findings import find
from constrained_dnc.report.verdicts import Verdict, compare, judge_all
from constrained_dnc.study import read_study, write_results
from synthetic import row


def verdicts(path: Path, **ends: list[int]) -> dict[str, Verdict]:
    """Verdicts on sorting when the trials of an approach are right up to the given lengths."""
    names = {"both": "compr+reg", "stateful": "stateful-baseline"}
    request = {
        "tasks": ["sort"],
        "approaches": list(names.values()),
        "trials": 3,
        "memory_size": 50,
        "iterations": 20_000,
        "settings": {"training.min_length": 5, "training.max_length": 15},
    }
    (path / "study.json").write_text(json.dumps(request))
    for name, lengths in ends.items():
        for seed, end in enumerate(lengths):
            rows = [row("sort", names[name], seed, at, float(at <= end)) for at in range(2, 61)]
            write_results(path, f"{name}-{seed}", rows)
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
