"""Tasks that turn a sequence of numerals into another of the same length."""

from __future__ import annotations

import abc
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.sequence import AbstractSequenceTask
from constrained_dnc.tasks.task import Problem, format_entries, integer_or_none, round_off

NUM_NUMERALS = 5  # 0 to 4
ACCEPTED = f"numerals from 0 to {NUM_NUMERALS - 1}"


class AbstractNumeralTask(AbstractSequenceTask):
    """A subclass needs a name, a summary and the rule.

    >>> class Reverse(AbstractNumeralTask):
    ...     name = "reverse"
    ...     summary = "the input backwards"
    ...
    ...     def rule(self, numerals):
    ...         return numerals[:, ::-1]
    >>> Reverse().solve((2, 4, 2, 1, 3))
    (3, 1, 2, 4, 2)
    """

    input_channels = ("numeral", "control")
    output_channels = ("result", "signal")
    answer_note = (
        "Outputs are rounded to integers and not limited: an answer may contain "
        f"-1 or {NUM_NUMERALS}, which are not numerals."
    )

    @abc.abstractmethod
    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        """The results of a whole batch."""

    def draw(
        self, generator: np.random.Generator, batch_size: int, length: int
    ) -> tuple[tuple[int, ...], ...]:
        return draw_numerals(generator, batch_size, length)

    def check(self, problem: Problem) -> None:
        check_numerals("problem", problem)

    def solve(self, problem: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.rule(np.array([problem]))[0].tolist())

    def symbols(
        self, problems: tuple[Sequence[int], ...]
    ) -> Int[np.ndarray, "batch length columns"]:
        return np.array(problems)[:, :, np.newaxis]

    def results(
        self, symbols: Int[np.ndarray, "batch length columns"]
    ) -> Int[np.ndarray, "batch length results"]:
        return self.rule(symbols[:, :, 0])[:, :, np.newaxis]

    def scale(self, symbols: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """From 0..4 to [-1, 1]."""
        return symbols * (2 / (NUM_NUMERALS - 1)) - 1

    def unscale(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """From [-1, 1] to 0..4, rounded; what lies outside is not clamped."""
        return round_off((values + 1) * ((NUM_NUMERALS - 1) / 2))

    def answers(
        self, symbols: Float[np.ndarray, "batch length results"]
    ) -> list[tuple[int | None, ...]]:
        return [tuple(map(integer_or_none, row)) for row in symbols[:, :, 0].tolist()]

    def parse(self, text: str) -> tuple[int, ...]:
        return parse_numerals("problem", text)

    def format_problem(self, problem: Sequence[int]) -> str:
        return format_entries(problem)

    def format_answer(self, answer: Sequence[int | None]) -> str:
        return format_entries(answer)


def draw_numerals(
    generator: np.random.Generator, batch_size: int, length: int
) -> tuple[tuple[int, ...], ...]:
    """Uniform numerals."""
    return tuple(map(tuple, generator.integers(NUM_NUMERALS, size=(batch_size, length)).tolist()))


def check_numerals(setting: str, numerals: Any) -> None:
    """Refuse anything but a sequence of at least one numeral."""
    is_sequence = isinstance(numerals, Sequence) and not isinstance(numerals, str)
    if not is_sequence or not numerals or not all(map(_is_numeral, numerals)):
        raise SettingError(setting, numerals, f"a sequence of {ACCEPTED}")


def _is_numeral(value: object) -> bool:
    return type(value) is int and 0 <= value < NUM_NUMERALS


def parse_numerals(setting: str, text: str) -> tuple[int, ...]:
    """Numerals from text, separated by spaces or commas.

    >>> parse_numerals("problem", "3 1 4, 1, 0")
    (3, 1, 4, 1, 0)
    """
    words = re.split(r"[\s,]+", text.strip())
    if not all(re.fullmatch(rf"[0-{NUM_NUMERALS - 1}]", word) for word in words):
        raise SettingError(setting, text, f"{ACCEPTED}, separated by spaces, such as '3 1 4 1 0'")
    return tuple(map(int, words))
