"""Tasks whose problems can be typed and solved by hand, and the parsing of such problems."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.task import (
    AbstractTask,
    Answer,
    Batch,
    Key,
    Problem,
    Scores,
    generator_of,
)


class AbstractProblemTask(AbstractTask):
    """The network reads a problem (encoding), then writes an answer (decoding), step by step.

    Problems and answers are plain Python values with a text form.
    """

    @final
    def sample(self, key: Key, batch_size: int, length: int) -> Batch:
        return self.encode(self.draw(generator_of(key), batch_size, length))

    @abc.abstractmethod
    def draw(
        self, generator: np.random.Generator, batch_size: int, length: int
    ) -> tuple[Problem, ...]:
        """Random problems of one length.

        Args:
            generator: The source of randomness.
            batch_size: The number of problems.
            length: Their input length, at least 1.
        """

    @abc.abstractmethod
    def num_steps(self, length: int) -> int: ...

    def encoding_steps(self, length: int) -> int:
        """Steps of the encoding phase, the end-of-input flag included."""
        return length + 1

    def length_of(self, problem: Problem) -> int:
        return len(problem)

    @abc.abstractmethod
    def check(self, problem: Problem) -> None: ...

    @abc.abstractmethod
    def encode(self, problems: tuple[Problem, ...]) -> Batch: ...

    @abc.abstractmethod
    def solve(self, problem: Problem) -> Answer: ...

    @abc.abstractmethod
    def read(self, outputs: Float[np.ndarray, "time batch outputs"], length: int) -> list[Answer]:
        """The answers in checked outputs; None stands for an entry that is not finite."""

    @abc.abstractmethod
    def grade(self, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]) -> Scores: ...

    def is_right(self, expected: Any, entry: Any) -> bool:
        return bool(expected == entry)

    @abc.abstractmethod
    def parse(self, text: str) -> Problem: ...

    @abc.abstractmethod
    def format_problem(self, problem: Problem) -> str: ...

    def format_entry(self, entry: Any) -> str:
        return "?" if entry is None else str(entry)

    def format_answer(self, answer: Answer) -> str:
        return " ".join(map(self.format_entry, answer))


def read_problems(task: AbstractTask, problems: Any) -> tuple[list[Problem], bool]:
    """A list of problems from text, plain values or arrays, and whether it was a single problem.

    >>> from constrained_dnc.tasks.numeral import Sort
    >>> read_problems(Sort(), "3 1 4"), read_problems(Sort(), ["3 1 4", (2, 0)])
    (([(3, 1, 4)], True), ([(3, 1, 4), (2, 0)], False))
    """
    problems = _plain(problems)
    try:
        return [_read_one(task, problems)], True
    except SettingError:
        are_several = isinstance(problems, Sequence) and not isinstance(problems, str)
        if not (are_several and problems and all(isinstance(one, Sequence) for one in problems)):
            raise
    return [_read_one(task, problem) for problem in problems], False


def _read_one(task: AbstractTask, problem: Any) -> Problem:
    if isinstance(problem, str):
        return task.parse(problem)
    task.check(problem)
    return problem


def _plain(values: Any) -> Any:
    """Arrays and their entries as plain Python values."""
    if hasattr(values, "tolist"):
        return _plain(values.tolist())
    if type(values) in (list, tuple):
        return tuple(map(_plain, values))
    return values
