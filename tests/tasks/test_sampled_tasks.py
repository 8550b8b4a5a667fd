"""A task that has only `sample` works everywhere."""

from pathlib import Path

import numpy as np
import pytest

from constrained_dnc import (
    AbstractTask,
    SettingError,
    check_task,
    evaluate,
    get_task,
    load_run,
    predict,
    train,
)
from tiny_runs import tiny_config

EXAMPLES = Path(__file__).parents[2] / "examples"
RECALL = f"{EXAMPLES / 'associative_recall.py'}:AssociativeRecall"
REPEAT = f"{EXAMPLES / 'repeat_copy.py'}:RepeatCopy"


class Echo(AbstractTask):
    """Random signs, one step later; the last step of a short sample is padding."""

    name = "echo"
    summary = "the input one step later"
    tolerance = 1.0

    def sample(self, key, batch_size, length):
        signs = np.random.default_rng(key).choice([-1, 1], size=(length + 2, batch_size, 2))
        mask = np.ones((length + 2, batch_size))
        mask[0] = mask[-1] = 0
        return signs, np.roll(signs, 1, axis=0), mask


class Parity(AbstractTask):
    """By logits; a scored step right from the start."""

    name = "parity"
    summary = "whether the number of ones so far is odd"
    loss = "cross-entropy"

    def sample(self, key, batch_size, length):
        bits = np.random.default_rng(key).integers(2, size=(length, batch_size, 1))
        return bits, np.cumsum(bits, axis=0) % 2, np.ones((length, batch_size), bool)


@pytest.mark.parametrize("task", [Echo(), Parity(), get_task(RECALL), get_task(REPEAT)])
def test_the_contract_is_kept(task):
    check_task(task)


def test_defaults():
    task = Echo()
    batch = task.sample((1, 2), 3, 4)
    assert batch.inputs.dtype == batch.targets.dtype == np.float32
    assert batch.mask.dtype == np.bool_
    assert batch.num_steps.tolist() == [5, 5, 5]  # up to the last step of the loss
    assert (task.num_steps(4), task.encoding_steps(4)) == (6, 1)
    assert task.input_channels == ("input 1", "input 2")
    assert task.format_problem(batch.problems[1]) == "length 4, key 1 2, sample 2 of 3"
    again = task.batch_of([task.parse("length 4, key 1 2, sample 2 of 3")])
    np.testing.assert_array_equal(again.inputs[:, 0], batch.inputs[:, 1])
    assert task.parse("length 4, key 7") == task.sample(7, 1, 4).problems[0]


def test_scores_against_loops():
    for task in (Echo(), Parity()):
        batch = task.sample(5, 20, 6)
        outputs = np.random.default_rng(0).normal(0.3, 1.5, batch.targets.shape)
        outputs[3, 0, 0] = np.nan
        scores = task.score(batch, outputs)
        for sample in range(20):
            right = []
            for step in np.flatnonzero(batch.mask[:, sample]):
                for out, target in zip(
                    outputs[step, sample], batch.targets[step, sample], strict=True
                ):
                    close = abs(out - target) < 1
                    by_sign = np.isfinite(out) and (out > 0) == (target == 1)
                    right.append(by_sign if task.loss == "cross-entropy" else close)
            assert scores.score[sample] == pytest.approx(np.mean(right))
            assert scores.sequence_accuracy[sample] == all(right)


def test_answers_as_text():
    task = Parity()
    outputs = np.array([[[2.0]], [[-0.1]], [[np.nan]]])
    assert task.decode(outputs, 3) == [((1.0,), (0.0,), (None,))]
    assert task.format_answer(((1.0,), (0.0,), (None,))) == "1 | 0 | ?"
    assert task.is_right((1.0,), (1.0,))
    assert not task.is_right((1.0,), (None,))


@pytest.mark.parametrize("text", ["", "8", "length 0, key 1", "length 2, key 1, sample 3 of 2"])
def test_text_that_names_no_sample(text):
    with pytest.raises(SettingError, match="must be text such as 'length 8, key 0'"):
        Echo().parse(text)


RESULTS = {
    "must return inputs, targets, mask, not a tuple of 2": lambda x, m: (x, x),
    "must return inputs, targets, mask, not ndarray": lambda x, m: x,
    "returned float64 of shape (4, 3) as inputs, not numbers of shape (4, 2, channels)": (
        lambda x, m: (x[:, 0], x, m)
    ),
    "returned float64 of shape (3, 2, 3) as targets": lambda x, m: (x, x[1:], m),
    "returned float64 of shape (4,) as mask": lambda x, m: (x, x, m[:, 0]),
    "returned a mask without any step for sample 2": lambda x, m: (x, x, m * [1, 0]),
    "returned <U32 of shape (4, 2, 3) as targets": lambda x, m: (x, x.astype(str), m),
    "failed (": lambda x, m: x[99],
}


@pytest.mark.parametrize(("sentence", "result"), RESULTS.items(), ids=range(len(RESULTS)))
def test_results_that_are_no_batch(sentence, result):
    class Wrong(Echo):
        def sample(self, key, batch_size, length):
            x = np.zeros((4, batch_size, 3))
            return result(x, np.ones((4, batch_size)))

    with pytest.raises(SettingError) as refused:
        Wrong().sample(0, 2, 3)
    assert str(refused.value).startswith(f"sample of the task echo {sentence}")


def test_train_evaluate_and_predict(tmp_path):
    train(tiny_config(REPEAT, "compr+reg", iterations=4), tmp_path / "run")
    run = load_run(tmp_path / "run", trust_code=True)
    assert len(evaluate(run)) >= 4  # a row for each length
    answer = predict(run, "length 2, key 0")
    assert np.shape(answer) == (7, 5)
