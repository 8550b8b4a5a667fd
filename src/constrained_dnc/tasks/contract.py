"""What every task promises, checked on samples: for tasks of your own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from constrained_dnc.choices import LOSSES
from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Batch

LENGTHS = (1, 2, 3, 8)
BATCH_SIZE = 5


def check_task(task: AbstractTask | str) -> None:
    """Sample, encode, solve, decode and score; refuse a task that breaks what others rely on.

    >>> check_task("sort")
    """
    task = get_task(task) if isinstance(task, str) else task
    if not isinstance(task, AbstractTask):
        raise SettingError("task", task, "an AbstractTask, such as MyTask(), or the name of one")
    _demand(task, _broken_words(task))
    for length in LENGTHS:
        batch = task.sample((0, length), BATCH_SIZE, length)
        for broken in (_broken_shapes, _broken_values, _broken_problems, _broken_scores):
            _demand(task, broken(task, batch, length), length)


def _demand(task: AbstractTask, broken: Iterator[str], length: int | None = None) -> None:
    """Refuse the task for the first promise that is broken."""
    for promise in broken:
        where = "" if length is None else f", which it is not at length {length}"
        raise SettingError("task", type(task).__name__, f"one where {promise}{where}")


def _broken_words(task: AbstractTask) -> Iterator[str]:
    for name in ("name", "summary"):
        if not (isinstance(getattr(task, name, None), str) and getattr(task, name).strip()):
            yield f"{name} is a text"
    for name in ("input_channels", "output_channels"):
        channels = getattr(task, name, None)
        if not isinstance(channels, tuple) or not channels or len(set(channels)) < len(channels):
            yield f"{name} is a tuple of different names"
    if task.loss not in LOSSES:
        yield f"loss is one of {', '.join(LOSSES)}"


def _broken_shapes(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    steps = task.num_steps(length)
    arrays: dict[str, tuple[Any, ...]] = {
        "inputs": (np.float32, steps, BATCH_SIZE, task.input_size),
        "targets": (np.float32, steps, BATCH_SIZE, task.output_size),
        "mask": (np.bool_, steps, BATCH_SIZE),
    }
    for name, (kind, *shape) in arrays.items():
        array = np.asarray(getattr(batch, name))
        if (array.dtype, list(array.shape)) != (kind, shape):
            yield f"{name} is {np.dtype(kind)} of shape {tuple(shape)}"
    if np.shape(batch.num_steps) != (BATCH_SIZE,) or np.max(batch.num_steps) > steps:
        yield f"num_steps has {BATCH_SIZE} entries, none above num_steps({length})"
    if not 1 <= task.encoding_steps(length) <= steps:
        yield f"encoding_steps({length}) is from 1 to num_steps({length})"
    if (batch.length, len(batch.problems)) != (length, BATCH_SIZE):
        yield f"a batch has the length it is asked for and {BATCH_SIZE} problems"


def _broken_values(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    again = task.sample((0, length), BATCH_SIZE, length)
    encoded = task.batch_of(batch.problems)
    for name in ("inputs", "targets", "mask", "num_steps"):
        values = getattr(batch, name)
        if not np.array_equal(values, getattr(again, name)):
            yield f"{name} is the same for the same key"
        if not np.array_equal(values, getattr(encoded, name)):
            yield f"{name} is the same when the problems are given to batch_of"
        if not np.isfinite(values).all():
            yield f"{name} is finite"
    after_the_end = np.arange(len(batch.mask))[:, np.newaxis] >= batch.num_steps
    if not batch.mask.any(axis=0).all() or (batch.mask & after_the_end).any():
        yield "every sample has steps in its mask, none after its last one"


def _broken_problems(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    for problem in batch.problems:
        if task.length_of(problem) != length:
            yield "length_of(problem) is the length it is drawn with"
        text = task.format_problem(problem)
        if not isinstance(text, str) or task.parse(text) != problem:
            yield f"parse(format_problem(problem)) is the problem, {problem!r}"
    answers = task.decode(perfect_outputs(task, batch), length)
    for problem, answer in zip(batch.problems, answers, strict=True):
        if answer != task.solve(problem):
            yield f"decode of perfect outputs is solve(problem), {task.solve(problem)!r}"
        if not isinstance(task.format_answer(answer), str):
            yield "format_answer(answer) is a text"


def _broken_scores(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    perfect = task.score(batch, perfect_outputs(task, batch))
    lost = task.score(batch, np.full_like(batch.targets, np.nan))
    for name in ("score", "sequence_accuracy"):
        best, worst = getattr(perfect, name), getattr(lost, name)
        if np.shape(best) != (BATCH_SIZE,) or not np.all(best == 1):
            yield f"the {name} of perfect outputs is 1 for each of {BATCH_SIZE} samples"
        if np.shape(worst) != (BATCH_SIZE,) or not np.all((worst >= 0) & (worst < 1)):
            yield f"the {name} of outputs that are not finite is from 0 to below 1"


def perfect_outputs(task: AbstractTask, batch: Batch) -> Float[np.ndarray, "time batch outputs"]:
    """The targets; where outputs are logits, numbers that say the same."""
    return 8 * batch.targets - 4 if task.loss == "cross-entropy" else batch.targets
