"""The search task."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks import Batch
from constrained_dnc.tasks.search import Search, SearchProblem


def answer_outputs(length: int, entries: list[float], signal: float = 1.0) -> np.ndarray:
    """Outputs that give these relative positions, then the end signal."""
    outputs = np.zeros((2 * length + 4, 1, 2))
    for place, entry in enumerate(entries):
        outputs[length + 3 + place, 0, 0] = entry
    if len(entries) <= length:
        outputs[length + 3 + len(entries), 0, 1] = signal
    return outputs


@pytest.mark.parametrize("length", [1, 2, 5, 16])
def test_results_by_brute_force(length: int) -> None:
    batch = Search().sample(1, 60, length)
    for sample, (data, query) in enumerate(batch.problems):
        positions = [place for place in range(length) if data[place] == query]
        for place, numeral in enumerate((*data, 0, query)):
            assert batch.inputs[place, sample, 0] == numeral / 4
        controls = [length + 1, length + 3]
        for step in range(1, 2 * length + 5):
            place = step - (length + 4)
            relative = 0.0
            if 0 <= place < len(positions):
                relative = positions[place] / (length - 1) if length > 1 else 0.0
            is_end = place == len(positions)
            wanted = np.array((relative, is_end), np.float32)
            assert batch.inputs[step - 1, sample, 1] == (step in controls)
            np.testing.assert_array_equal(batch.targets[step - 1, sample], wanted)
            assert batch.mask[step - 1, sample] == (0 <= place <= len(positions))
        assert batch.num_steps[sample] == length + 3 + len(positions) + 1


def test_queries_are_uniform_and_may_be_absent() -> None:
    problems = Search().sample(0, 5000, 3).problems
    counts = np.bincount([problem.query for problem in problems], minlength=5)
    assert counts.size == 5
    assert stats.chisquare(counts).pvalue > 1e-3
    absent = np.mean([problem.query not in problem.data for problem in problems])
    assert absent == pytest.approx(0.8**3, abs=0.03)  # four standard errors


@pytest.mark.parametrize(
    ("entries", "hit_rate", "recall", "answer"),
    [
        ([0, 0.5, 1], 1, 1, (0, 2, 4)),
        ([0, 0.5], 2 / 3, 2 / 3, (0, 2)),
        ([0, 0.5, 1, 1], 3 / 4, 1, (0, 2, 4, 4)),
        ([0.5, 1], 0, 0, (2, 4)),
        ([0.12, 0.38, 1.2], 2 / 3, 2 / 3, (0, 2, 5)),
        ([0, np.nan, 1], 2 / 3, 2 / 3, (0, None, 4)),
        ([], 0, 0, ()),
    ],
)
def test_scores_by_hand(
    entries: list[float], hit_rate: float, recall: float, answer: tuple[int | None, ...]
) -> None:
    task = Search()
    batch = task.batch_of([SearchProblem((2, 0, 2, 1, 2), 2)])
    outputs = answer_outputs(5, entries)
    scores = task.score(batch, outputs)
    assert task.decode(outputs, 5) == [answer]
    assert scores.score.tolist() == pytest.approx([hit_rate])
    assert scores.recall is not None
    assert scores.recall.tolist() == pytest.approx([recall])


def test_absent_query() -> None:
    task = Search()
    batch = task.batch_of([SearchProblem((2, 0, 2), 1)])
    assert task.score(batch, answer_outputs(3, [])).score.tolist() == [1]
    scores = task.score(batch, answer_outputs(3, [0.0]))
    assert scores.score.tolist() == [0]
    assert scores.recall is not None
    assert scores.recall.tolist() == [1]


def test_only_a_signal_above_the_threshold_ends_the_list() -> None:
    task = Search()
    assert task.decode(answer_outputs(3, [0.5], signal=0.8), 3) == [(1, 0, 0, 0)]
    assert task.decode(answer_outputs(3, [0.5], signal=0.81), 3) == [(1,)]
    assert task.decode(answer_outputs(3, [0.5], signal=np.inf), 3) == [(1, 0, 0, 0)]


def slow_scores(batch: Batch, outputs: np.ndarray, sample: int) -> tuple[float, float]:
    length = batch.length
    given_list: list[int] = []
    for step in range(length + 3, 2 * length + 4):
        if outputs[step, sample, 1] > 0.8:
            break
        given_list.append(round(float(outputs[step, sample, 0]) * (length - 1)))
    data, query = batch.problems[sample]
    wanted = [place for place, numeral in enumerate(data) if numeral == query]
    correct = sum(one == other for one, other in zip(given_list, wanted, strict=False))
    longer = max(len(given_list), len(wanted))
    return correct / longer if longer else 1.0, correct / len(wanted) if wanted else 1.0


@given(seed=st.integers(0, 2**32), length=st.integers(1, 25), noise=st.floats(0, 0.7))
def test_scores_against_loops(seed: int, length: int, noise: float) -> None:
    task = Search()
    batch = task.sample(seed, 6, length)
    outputs = batch.targets + noise * np.random.default_rng(seed).normal(size=batch.targets.shape)
    scores = task.score(batch, outputs)
    assert scores.recall is not None
    for sample in range(6):
        hit_rate, recall = slow_scores(batch, outputs, sample)
        assert scores.score[sample] == pytest.approx(hit_rate, abs=1e-12)
        assert scores.recall[sample] == pytest.approx(recall, abs=1e-12)
        assert scores.sequence_accuracy[sample] == (hit_rate == 1)


def test_text() -> None:
    task = Search()
    assert task.parse("2 1 2 4 ? 2") == SearchProblem((2, 1, 2, 4), 2)
    assert task.parse("2,1,2,4?2") == SearchProblem((2, 1, 2, 4), 2)
    assert task.format_problem(SearchProblem((2, 1, 2, 4), 2)) == "2 1 2 4 ? 2"
    assert task.format_answer((0, 2)) == "0 2"
    assert task.format_answer(()) == "none"
    for text in ("2 1 2", "2 1 ? 5", "? 1", "2 ?", "2 ? 1 1", "2 ? 1 ? 1", "7 ? 1"):
        with pytest.raises(SettingError) as caught:
            task.parse(text)
        assert str(caught.value) == (
            "problem must be numerals from 0 to 4, then ? and one of them, such as '2 1 2 4 ? 2', "
            f"not {text!r}"
        )
