"""Tasks of tokens: answers of varying length, what is scored, and the three of NAM."""

from __future__ import annotations

import numpy as np
import pytest

from constrained_dnc import AbstractTask, AbstractTokenTask, Softmax, check_task
from constrained_dnc.errors import SettingError
from constrained_dnc.tasks import get_task


class Vowels(AbstractTokenTask):
    """The vowels of a word."""

    name = "vowels"
    summary = "the vowels of a word"
    tokens = ("a", "b", "c", "e")
    answer_tokens = ("a", "e", "end")
    end = 2

    def answer(self, symbols):
        answers = np.full((len(symbols), symbols.shape[1] + 1), self.end)
        for row, word in enumerate(symbols):
            vowels = [(0, 3).index(token) for token in word.tolist() if token in (0, 3)]
            answers[row, : len(vowels)] = vowels
        return answers


def outputs_of(task: AbstractTask, rows: list[list[int]], steps: int) -> np.ndarray:
    """Logits that choose these tokens at the last steps."""
    outputs = np.zeros((steps, len(rows), task.output_size))
    for sample, row in enumerate(rows):
        for step, token in enumerate(row, steps - len(row)):
            outputs[step, sample, token] = 1.0
    return outputs


def test_answers_end_with_the_end_token():
    task = Vowels()
    check_task(task)
    batch = task.batch_of([task.parse("cab"), task.parse("bbb"), task.parse("eee")])
    assert batch.mask[3:].T.tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]
    assert batch.num_steps.tolist() == [5, 4, 7]
    assert [task.format_answer(task.solve(problem)) for problem in batch.problems] == [
        "a",
        "none",
        "e e e",
    ]
    outputs = outputs_of(task, [[0, 2, 1, 1], [0, 2, 0, 0], [1, 1, 0, 2]], 7)
    assert task.decode(outputs, 3) == [(0,), (0,), (1, 1, 0)]
    scores = task.score(batch, outputs)
    np.testing.assert_allclose(scores.score, [1, 0, 3 / 4])
    assert scores.sequence_accuracy.tolist() == [1, 0, 0]
    outputs[3, 0, 1] = np.nan
    assert task.decode(outputs, 3)[0] == (None,)
    assert task.score(batch, outputs).score[0] == 0.5


@pytest.mark.parametrize(
    ("answer", "flaw"),
    [
        (lambda self, symbols: symbols / 2, r"returned float64 of shape \(2, 3\), not integers"),
        (lambda self, symbols: symbols[:, 0], r"int64 of shape \(2,\), not integers of shape \(2,"),
        (lambda self, symbols: 9 - symbols, r"returned 9, which is not a number of the tokens 0 1"),
        (lambda self, symbols: symbols - 1, "returned -1, which is not a number"),
        (lambda self, symbols: symbols[:, 9], r"answer of the task wrong failed \(.*test_tokens"),
    ],
)
def test_a_wrong_answer_method_is_named(answer, flaw):
    body = {"name": "wrong", "summary": "wrong", "answer": answer}
    task = type("Wrong", (AbstractTokenTask,), body)()
    with pytest.raises(SettingError, match=flaw):
        task.answer(np.array([[0, 1, 0], [1, 1, 1]]))


class TwoHeads(AbstractTask):
    """Two choices a step: the input token, and whether it equals the first one."""

    name = "two-heads"
    summary = "each token, and whether it is the first one again"
    loss = Softmax((3, 2))

    def sample(self, key, batch_size, length):
        tokens = np.random.default_rng(key).integers(3, size=(length, batch_size))
        is_first = 1 * (tokens == tokens[0])
        targets = np.concatenate([np.eye(3)[tokens], np.eye(2)[is_first]], axis=2)
        return np.eye(3)[tokens], targets, np.ones((length, batch_size), bool)


def test_two_groups_of_channels_are_two_answers():
    task = TwoHeads()
    check_task(task)
    batch = task.sample(0, 4, 6)
    outputs = np.asarray(batch.targets, np.float64)
    assert task.solve(batch.problems[0]) == tuple(
        (int(step[:3].argmax()), int(step[3:].argmax())) for step in batch.targets[:, 0]
    )
    outputs[2, 1, 3:] = outputs[2, 1, :2:-1]  # the second head is wrong at one step
    scores = task.score(batch, outputs)
    np.testing.assert_allclose(scores.score, [1, 11 / 12, 1, 1])
    assert scores.sequence_accuracy.tolist() == [1, 0, 1, 1]
    np.testing.assert_allclose(task.probabilities(outputs).sum(axis=2), 2)


def test_groups_that_do_not_fit_are_named():
    class Odd(TwoHeads):
        loss = Softmax((3, 3))

    with pytest.raises(SettingError, match=r"groups \(3, 3\) must have 5 output channels in all"):
        check_task(Odd())


@pytest.mark.parametrize(
    ("loss", "flaw"),
    [
        (lambda self, outputs, batch: outputs.mean(), "loss must return one number per sample"),
        (lambda self, outputs, batch: np.square(outputs).mean((0, 2)), r"failed \(.*test_tokens"),
        (
            lambda self, outputs, batch: (outputs / 0).mean((0, 2)),
            "loss and its gradient must be finite",
        ),
    ],
)
def test_a_wrong_user_defined_loss_is_named(loss, flaw):
    task = type("Wrong", (TwoHeads,), {"loss": loss, "read_as": Softmax((3, 2))})()
    with pytest.raises(SettingError, match=flaw):
        check_task(task)


class FlatAnswers(TwoHeads):
    """Its `read` returns numbers where steps are wanted."""

    def read(self, outputs, length):
        return [tuple(sample) for sample in outputs[:, :, :3].argmax(axis=2).T.tolist()]


def test_flat_answers_are_refused_in_one_sentence():
    sentence = (
        r"what FlatAnswers\.read returns \(.*test_tokens\.py, line \d+\) must be an answer for "
        r"each sample: a tuple of steps, each a tuple of numbers, .* not \(\d,"
    )
    with pytest.raises(SettingError, match=sentence):
        check_task(FlatAnswers())
    with pytest.raises(SettingError, match=sentence):
        FlatAnswers().solve(FlatAnswers().parse("length 3, key 1"))

    class Written(FlatAnswers):
        def format_answer(self, answer):
            return " ".join(map(str, answer))

    check_task(Written())


def test_palindrome_reduce_and_fibonacci_by_their_definitions():
    for problem in get_task("nam/palindrome").sample(0, 50, 12).problems:
        whole = problem + get_task("nam/palindrome").solve(problem)
        assert whole == whole[::-1]
    for problem in get_task("nam/reduce").sample(1, 50, 12).problems:
        assert get_task("nam/reduce").solve(problem) == tuple(x for x in problem if x)
    for length in (1, 2, 16):
        task = get_task("nam/fibonacci")
        for problem in task.sample(2, 50, length).problems:
            first, second = (int(text[::-1]) for text in task.format_problem(problem).split(","))
            total = "".join(map(str, task.solve(problem)))[::-1]
            assert int(total) == first + second
            assert len(total) == length + 1


def test_what_nam_cannot_read_is_refused():
    for name, text in (
        ("reduce", "1a"),
        ("fibonacci", "1,23"),
        ("fibonacci", "12"),
        ("reduce", ""),
    ):
        with pytest.raises(SettingError, match="problem must be made of the tokens 0 1 2"):
            get_task(f"nam/{name}").parse(text)
    assert get_task("nam/reduce").format_answer(get_task("nam/reduce").solve((0, 0))) == "none"
