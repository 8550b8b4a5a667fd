"""Every task of the registry, beyond what `check_task` checks; see test_contract.py."""

from __future__ import annotations

import doctest
import importlib
import time
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks import AbstractTask, Batch, get_task, task_names
from constrained_dnc.tasks.entries import round_off
from typing_off import without_shape_checks

EVERY_TASK = pytest.mark.parametrize("task", [*map(get_task, task_names())], ids=task_names())
PAPER_TASKS = [name for name in task_names() if "/" not in name]
EVERY_PAPER_TASK = pytest.mark.parametrize("task", [*map(get_task, PAPER_TASKS)], ids=PAPER_TASKS)
ARRAYS = ("inputs", "targets", "mask", "num_steps")
LENGTHS = (1, 2, 5, 15)
MILLISECONDS = {"search": 3.0, "logic": 3.0}  # the others 1


@pytest.fixture
def unchecked() -> Iterator[None]:
    with without_shape_checks():
        yield


def perfect_outputs(task: AbstractTask, batch: Batch) -> np.ndarray:
    return batch.targets if task.loss == "squared error" else 8 * batch.targets - 4


@EVERY_PAPER_TASK
@pytest.mark.parametrize("length", LENGTHS)
def test_batch(task: AbstractTask, length: int) -> None:
    batch = task.sample(3, 7, length)
    steps = task.num_steps(length)
    for sample, num_steps in enumerate(batch.num_steps):
        assert batch.mask[num_steps - 1, sample]
        assert not batch.mask[num_steps:, sample].any()
        assert not batch.inputs[num_steps:, sample].any()
        assert not batch.targets[num_steps:, sample].any()
        assert not batch.targets[~batch.mask[:, sample], sample].any()
        masked = np.flatnonzero(batch.mask[:, sample])
        assert np.array_equal(masked, np.arange(masked[0], num_steps))
        assert masked[0] >= task.encoding_steps(length)
    assert np.all(batch.inputs[task.encoding_steps(length) - 1, :, -1] == 1)
    assert not batch.inputs[: task.encoding_steps(length) - 1, :, -1].any()
    if task.name != "search":  # whose answers may be short
        assert set(batch.num_steps) == {steps}


@EVERY_TASK
def test_other_key_other_batch(task: AbstractTask) -> None:
    keys = (5, 6, (5, 0), (5, 1), (1, 5), (5, 0, 0), 2**32, (0, 1), 2**70)
    assert len({task.sample(key, 8, 12).problems for key in keys}) == len(keys)
    assert task.sample([5], 8, 12).problems == task.sample(5, 8, 12).problems


@EVERY_TASK
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 20), noise=st.floats(0, 2))
def test_sequence_is_right_where_every_entry_is(
    task: AbstractTask, seed: int, length: int, noise: float
) -> None:
    batch = task.sample(seed, 4, length)
    outputs = perfect_outputs(task, batch)
    outputs = outputs + noise * np.random.default_rng(seed).normal(size=outputs.shape)
    scores = task.score(batch, outputs)
    right = [
        given == task.solve(problem)
        for given, problem in zip(task.decode(outputs, length), batch.problems, strict=True)
    ]
    assert scores.sequence_accuracy.tolist() == right
    assert (scores.score == 1).tolist() == right
    assert np.all((scores.score >= 0) & (scores.score <= 1))


@EVERY_TASK
@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_diverged_outputs_are_wrong(task: AbstractTask, length: int, value: float) -> None:
    batch = task.sample(1, 20, length)
    outputs = np.full_like(batch.targets, value)
    scores = task.score(batch, outputs)
    assert not scores.score.any()
    assert not scores.sequence_accuracy.any()
    for answer in task.decode(outputs, length):
        assert set(task.format_answer(answer)) <= {"?", " "}


@EVERY_TASK
@pytest.mark.parametrize("value", [-1e300, 1.7e308])
def test_huge_outputs_are_read_without_a_warning(task: AbstractTask, value: float) -> None:
    batch = task.sample(1, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task.score(batch, np.full(batch.targets.shape, value))
        task.decode(np.full(batch.targets.shape, value), 4)


@EVERY_PAPER_TASK
@pytest.mark.parametrize("text", ["", "x", "-1", "5 5", "1 2 3 ?", "+"])
def test_text_that_is_no_problem_is_named(task: AbstractTask, text: str) -> None:
    with pytest.raises(SettingError) as caught:
        task.parse(text)
    assert str(caught.value).startswith("problem ")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value", [0, 2.5, "5"])
def test_bad_sizes_are_refused(value: int) -> None:
    task = get_task("sort")
    with pytest.raises(SettingError, match=r"^length must be "):
        task.sample(0, 2, value)
    with pytest.raises(SettingError, match=r"^batch_size must be "):
        task.sample(0, value, 2)
    with pytest.raises(SettingError, match=r"^length must be "):
        task.decode(np.zeros((6, 1, task.output_size)), value)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("key", [-1, 0.5, "7", (), (1, -1)])
def test_bad_keys_are_refused(key: int) -> None:
    with pytest.raises(SettingError, match=r"^key must be an integer of at least 0"):
        get_task("sort").sample(key, 2, 2)


@EVERY_PAPER_TASK
@pytest.mark.usefixtures("unchecked")
def test_bad_problems_are_refused(task: AbstractTask) -> None:
    short, long = task.sample(0, 1, 3).problems + task.sample(0, 1, 4).problems
    with pytest.raises(SettingError, match=r"different lengths: \[3, 4\]"):
        task.batch_of([short, long])
    nothing: list[Any] = [[], "TF"]
    for problems in nothing:
        with pytest.raises(SettingError, match=r"^problems must be "):
            task.batch_of(problems)
    for problem in ((), "", 3, (0, 9), ((1, 1), 7), "T∧"):
        with pytest.raises(SettingError, match=r"^(problem|data|query) "):
            task.batch_of([problem])


def test_bad_outputs_are_refused() -> None:
    task = get_task("sort")
    batch = task.sample(0, 2, 3)
    steps, _, size = batch.targets.shape
    for shape in ((steps, size), (steps + 1, 2, size), (steps, 2, size + 1)):
        with pytest.raises(SettingError, match=r"^shape of outputs must be \("):
            task.decode(np.zeros(shape), 3)
        with pytest.raises(SettingError, match=r"^shape of outputs must be \("):
            task.score(batch, np.zeros(shape))
    with pytest.raises(SettingError, match=r"^type of outputs must be real numbers"):
        task.score(batch, np.zeros((steps, 2, size), np.complex128))


def test_halves_are_rounded_to_even() -> None:
    rounded = round_off(np.array([-0.5, 0.5, 1.5, 2.5, 2.500001, np.inf]))
    np.testing.assert_array_equal(rounded, [0, 0, 2, 2, 3, np.nan])


@EVERY_TASK
@pytest.mark.usefixtures("unchecked")
def test_sampling_is_fast(task: AbstractTask) -> None:
    """Five times the aim, in processor time, so that a busy machine does not matter."""
    task.sample(0, 64, 5)
    start = time.process_time()
    for length in range(5, 16):
        task.sample(length, 64, length)
    milliseconds = 1000 * (time.process_time() - start) / 11
    assert milliseconds < 5 * MILLISECONDS.get(task.name, 1.0)
    start = time.process_time()
    task.sample(0, 64, 1000)
    assert time.process_time() - start < 1


@EVERY_TASK
def test_class_and_name_agree_and_the_example_runs(task: AbstractTask) -> None:
    assert type(task).__name__.lower() == task.name.rpartition("/")[2].replace("-", "")
    module = importlib.import_module(type(task).__module__)
    examples = doctest.DocTestFinder().find(type(task), globs=vars(module))
    assert sum(len(each.examples) for each in examples) > 0
    assert all(doctest.DocTestRunner().run(each).failed == 0 for each in examples)


def test_one_compiled_program_serves_all_batches_of_a_length():
    task, traced = get_task("search"), []

    @jax.jit
    def through(batch: Batch):
        traced.append(batch.length)
        return batch, jnp.sum(batch.targets * batch.mask[:, :, None])

    for key, length in ((0, 3), (1, 3), (2, 4)):
        batch = task.sample(key, 2, length)
        same, total = through(batch)
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(same, name), getattr(batch, name))
        assert (same.length, same.problems) == (length, ())
        assert total == pytest.approx((batch.targets * batch.mask[:, :, None]).sum())
    assert traced == [3, 4]


@EVERY_TASK
@pytest.mark.parametrize("length", LENGTHS)
def test_right_outputs_have_the_labels_of_the_targets(task, length):
    batch = task.sample(8, 1, length)
    outputs = batch.targets[:, 0].astype(float)
    if task.loss == "cross-entropy":
        outputs = 20 * outputs - 10
    read = task.output_labels(outputs, length)
    _, wanted = task.cell_labels(batch.problems[0])
    for channel, texts in wanted.items():
        assert texts.items() <= read[channel].items()


@EVERY_TASK
@pytest.mark.parametrize("length", LENGTHS)
def test_labels_stand_for_what_is_encoded(task, length):
    """Blanks are zeros; every other number is one of what its text stands for."""
    batch = task.sample(7, 1, length)
    meanings: dict[tuple[str, str], float] = {}
    for channels, values, labels in zip(
        (task.input_channels, task.output_channels),
        (batch.inputs, batch.targets),
        task.cell_labels(batch.problems[0]),
        strict=True,
    ):
        assert set(labels) <= set(channels)
        for column, channel in enumerate(channels):
            for step in range(int(batch.num_steps[0])):
                text = labels.get(channel, {}).get(step)
                value = float(values[step, 0, column])
                if text is None:
                    assert value == 0
                else:
                    assert meanings.setdefault((channel, text), value) == value
    assert len({(channel, value) for (channel, _), value in meanings.items()}) == len(meanings)
