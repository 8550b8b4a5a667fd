"""The answers of a trained model to problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from constrained_dnc.config import Inference, SelectionRule
from constrained_dnc.evaluation.trained import outputs_of, trained_model
from constrained_dnc.model.config import BackendChoice, MemorySize
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.problems import read_problems
from constrained_dnc.tasks.task import AbstractTask, Answer, DrawnSample, Problem
from constrained_dnc.training.run import Run

PROBLEMS_AT_ONCE = 64
MISSING = object()


def predict(
    model: Run | DNC | str | Path,
    problem: Any,
    *,
    task: AbstractTask | str | None = None,
    memory: MemorySize | None = None,
    selection: SelectionRule | None = None,
    inference: Inference = "network",
    backend: BackendChoice = "auto",
) -> Answer:
    """The answer of a model to a problem, or its answers to several.

    Args:
        model: A run, its folder or the name of a pretrained model, or a model with its `task`.
        problem: Text, plain values or an array: "3 1 4", (3, 1, 4), numpy.array([3, 1, 4]); or
            several in a list, a tuple or an array of one more dimension. They may differ in length.
        task: The task of a model that is not a run, or its name.
        memory: Slots of the memory, or "growing"; by default as in training.
        selection: The rule that selected the parameters of a run, by default `score`.
        inference: "digital" for hard writes and snapped states, see `calibrate`.
        backend: `auto`, `fused` or `pure`.

    Returns:
        What the task's `read` makes of the outputs, for numeral tasks a tuple of integers; for
        several problems a list of that.
    """
    trained = trained_model(model, task, selection, inference=inference)
    problems, is_one = read_problems(trained.task, problem)
    computing = trained.backend(backend, threads=1)
    slots = trained.memory(trained.slots if memory is None else memory)
    answers: list[Answer] = [None] * len(problems)
    for indices in _by_length(trained.task, problems):
        batch = trained.task.batch_of([problems[index] for index in indices])
        outputs = outputs_of(computing, trained.model, slots, batch.inputs)
        for index, answer in zip(indices, trained.task.decode(outputs, batch.length), strict=True):
            answers[index] = answer
    return answers[0] if is_one else answers


class Entry(NamedTuple):
    """One entry of the right answer and of the model's; a dash stands for a missing one."""

    right: str
    answer: str
    is_right: bool


def compare(task: AbstractTask, problem: Problem, answer: Answer) -> list[Entry]:
    """An answer beside the right one, entry by entry where the task's answers have entries."""
    right = task.solve(problem)
    if not (isinstance(right, Sequence) and isinstance(answer, Sequence)):
        return [Entry(task.format_answer(right), task.format_answer(answer), right == answer)]
    entries = [_entry(task, *pair) for pair in zip_longest(right, answer, fillvalue=MISSING)]
    if isinstance(problem, DrawnSample):  # has an entry for every step, scored or not
        mask = task.batch_of([problem]).mask[:, 0]
        scored = mask[int(np.argmax(mask)) :]
        entries = [entry for entry, counts in zip(entries, scored, strict=True) if counts]
    return entries


def _entry(task: AbstractTask, right: Any, answer: Any) -> Entry:
    first, second = (
        "\u2013" if entry is MISSING else task.format_entry(entry) for entry in (right, answer)
    )
    is_right = right is not MISSING and answer is not MISSING and task.is_right(right, answer)
    return Entry(first, second, is_right)


def _by_length(task: AbstractTask, problems: Sequence[Problem]) -> Iterator[list[int]]:
    """Indices of problems in batches; the problems of a batch have one length."""
    by_length: dict[int, list[int]] = {}
    for index, problem in enumerate(problems):
        by_length.setdefault(task.length_of(problem), []).append(index)
    for indices in by_length.values():
        for start in range(0, len(indices), PROBLEMS_AT_ONCE):
            yield indices[start : start + PROBLEMS_AT_ONCE]
