"""A check of user-defined tasks for everything that training, evaluation and commands rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from constrained_dnc.errors import SettingError
from constrained_dnc.plugins import naming_failures
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Batch, check_loss

LENGTHS = (1, 2, 3, 8)
BATCH_SIZE = 5
ARRAYS = ("inputs", "targets", "mask", "num_steps")


def check_task(task: AbstractTask | str) -> None:
    """Sample, encode, solve, decode and score; say in one sentence what is wrong with a task.

    Args:
        task: A task, or its name as `get_task` takes it.

    >>> check_task("sort")
    """
    task = get_task(task) if isinstance(task, str) else task
    if not isinstance(task, AbstractTask):
        raise SettingError("task", task, "an AbstractTask, such as MyTask(), or the name of one")
    name = f"the task {type(task).__name__}"
    with naming_failures(name):
        for flaw in _flaws_of_attributes(task):
            raise SettingError(f"{name}: {flaw}")
        for length in LENGTHS:
            batch = task.sample((0, length), BATCH_SIZE, length)
            for flaws in FLAWS:
                for flaw in flaws(task, batch, length):
                    raise SettingError(f"{name} at length {length}: {flaw}")


def _flaws_of_attributes(task: AbstractTask) -> Iterator[str]:
    for name in ("name", "summary"):
        if not (isinstance(getattr(task, name, None), str) and getattr(task, name).strip()):
            yield f"{name} must be text"
    for name in ("input_channels", "output_channels"):
        channels = getattr(task, name)
        if not isinstance(channels, tuple) or not channels or len(set(channels)) < len(channels):
            yield f"{name} must be a tuple of different names, not {channels!r}"
    check_loss(task)
    if task.groups and sum(task.groups) != task.output_size:
        yield f"the groups {task.groups} must have {task.output_size} output channels in all"


def _flaws_of_shapes(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    steps = task.num_steps(length)
    expected = {
        "inputs": f"float32 of shape {(steps, BATCH_SIZE, task.input_size)}",
        "targets": f"float32 of shape {(steps, BATCH_SIZE, task.output_size)}",
        "mask": f"bool of shape {(steps, BATCH_SIZE)}",
    }
    for name, needed in expected.items():
        array = np.asarray(getattr(batch, name))
        if (found := f"{array.dtype} of shape {array.shape}") != needed:
            yield f"{name} must be {needed}, not {found}"
    if np.shape(batch.num_steps) != (BATCH_SIZE,) or np.max(batch.num_steps) > steps:
        yield f"num_steps must have {BATCH_SIZE} entries of at most num_steps(length), {steps}"
    if not 1 <= task.encoding_steps(length) <= steps:
        yield f"encoding_steps(length) is {task.encoding_steps(length)}, not from 1 to {steps}"
    if batch.length > length or task.num_steps(batch.length) != steps:
        yield f"the length of a batch must be {length}, or less with as many steps"
    if len(batch.problems) != BATCH_SIZE:
        yield f"a batch must have {BATCH_SIZE} problems, not {len(batch.problems)}"


def _flaws_of_values(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    again = task.sample((0, length), BATCH_SIZE, length)
    encoded = task.batch_of(batch.problems)
    for name in ARRAYS:
        values = getattr(batch, name)
        if not np.isfinite(values).all():
            yield f"{name} must be finite"
        if not np.array_equal(values, getattr(again, name)):
            yield f"{name} must be determined by the key"
        if not np.array_equal(values, getattr(encoded, name)):
            yield f"{name} must not change when batch_of encodes the problems again"
    is_padding = np.arange(len(batch.mask))[:, np.newaxis] >= batch.num_steps
    if not batch.mask.any(axis=0).all():
        yield "the mask must select a step of every sample"
    if (batch.mask & is_padding).any():
        yield "the mask must not select steps after the last one of a sample"


def _flaws_of_problems(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    for problem in batch.problems:
        if task.length_of(problem) != batch.length:
            yield f"length_of(problem) is {task.length_of(problem)}"
        text = task.format_problem(problem)
        if not isinstance(text, str) or task.parse(text) != problem:
            yield f"parse(format_problem(problem)) must be the problem, {problem!r}"
    answers = task.decode(task.perfect_outputs(batch), batch.length)
    for problem, answer in zip(batch.problems, answers, strict=True):
        if answer != task.solve(problem):
            yield (
                f"perfect outputs are decoded as {answer!r}, but solve(problem) is "
                f"{task.solve(problem)!r} for {problem!r}"
            )
        if not isinstance(task.format_answer(answer), str):
            yield "format_answer(answer) must be text"


def _flaws_of_scores(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    perfect = task.score(batch, task.perfect_outputs(batch))
    diverged = task.score(batch, np.full_like(batch.targets, np.nan))
    for name in ("score", "sequence_accuracy"):
        best, worst = getattr(perfect, name), getattr(diverged, name)
        if np.shape(best) != (BATCH_SIZE,) or not np.all(best == 1):
            yield f"the {name} of perfect outputs must be 1 for each sample, not {best}"
        if np.shape(worst) != (BATCH_SIZE,) or not np.all((worst >= 0) & (worst < 1)):
            yield f"the {name} of outputs that are not finite must be below 1, not {worst}"


def _flaws_of_loss(task: AbstractTask, batch: Batch, length: int) -> Iterator[str]:
    """Call a user-defined loss, and differentiate it, as training does."""
    if not callable(task.loss):
        return
    import jax  # noqa: PLC0415 - takes a while

    loss: Callable[..., Any] = task.loss
    outputs = jax.numpy.asarray(task.perfect_outputs(batch), "float32")
    losses = loss(outputs, batch)
    if np.shape(losses) != (BATCH_SIZE,):
        yield f"loss must return one number per sample, of shape ({BATCH_SIZE},), not {losses!r}"
    gradient = jax.grad(lambda values: loss(values, batch).sum())(outputs + 0.1)
    if not (np.isfinite(losses).all() and np.isfinite(gradient).all()):
        yield "loss and its gradient must be finite for finite outputs"


FLAWS = (_flaws_of_shapes, _flaws_of_values, _flaws_of_problems, _flaws_of_scores, _flaws_of_loss)
