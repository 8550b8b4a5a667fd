"""Tasks that turn a sequence of numerals into another one of equal length: sort, copy, ..."""

from __future__ import annotations

import abc
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.errors import SettingError, require_integer
from constrained_dnc.plugins import naming_failures
from constrained_dnc.tasks.entries import format_entries, round_off
from constrained_dnc.tasks.sequence import AbstractSequenceTask
from constrained_dnc.tasks.task import Problem

NUM_NUMERALS = 5  # 0 to 4, as in the paper


class AbstractNumeralTask(AbstractSequenceTask):
    """A task with one result for each numeral; a subclass needs a name, a summary and the rule.

    >>> class Reverse(AbstractNumeralTask):
    ...     name = "reverse"
    ...     summary = "the input backwards"
    ...     num_numerals = 10
    ...
    ...     def rule(self, numerals):
    ...         return numerals[:, ::-1]
    >>> Reverse().solve((2, 9, 2, 1, 3))
    (3, 1, 2, 9, 2)
    """

    num_numerals: ClassVar[int] = NUM_NUMERALS  # 0 to num_numerals - 1
    input_channels = ("numeral", "control")
    output_channels = ("result", "signal")
    answer_note = (
        "Outputs are rounded to integers and not limited: an answer may contain -1 or other "
        "numbers that are not numerals."
    )

    @abc.abstractmethod
    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        """The results of a batch.

        Args:
            numerals: From 0 to num_numerals - 1; a read-only array.

        Returns:
            As many numerals.
        """

    def draw(
        self, generator: np.random.Generator, batch_size: int, length: int
    ) -> tuple[tuple[int, ...], ...]:
        require_integer(f"num_numerals of the task {self.name}", self.num_numerals, 2)
        return draw_numerals(generator, batch_size, length, self.num_numerals)

    def check(self, problem: Problem) -> None:
        check_numerals("problem", problem, self.num_numerals)

    def solve(self, problem: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._apply_rule(np.array([problem]))[0].tolist())

    def symbols(
        self, problems: tuple[Sequence[int], ...]
    ) -> Int[np.ndarray, "batch length columns"]:
        return np.array(problems)[:, :, np.newaxis]

    def results(
        self, symbols: Int[np.ndarray, "batch length columns"]
    ) -> Int[np.ndarray, "batch length results"]:
        results = self._apply_rule(symbols[:, :, 0])
        worst = results.min() if results.min() < 0 else results.max()
        if not 0 <= worst < self.num_numerals:
            accepted = accepted_numerals(self.num_numerals)
            name = f"the rule of the task {self.name}"
            raise SettingError(f"{name} returned {worst}, which is not among the {accepted}")
        return results[:, :, np.newaxis]

    def _apply_rule(
        self, numerals: Int[np.ndarray, "batch length"]
    ) -> Int[np.ndarray, "batch length"]:
        """The results of the rule, which must be one integer for each numeral."""
        name = f"the rule of the task {self.name}"
        numerals = numerals.view()
        numerals.flags.writeable = False  # a rule that changes its argument would change the inputs
        with naming_failures(name):
            results = np.asarray(self.rule(numerals))
        if results.shape != numerals.shape or results.dtype.kind not in "iu":
            raise SettingError(
                f"{name} returned {results.dtype} of shape {results.shape}, "
                f"not integers of shape {numerals.shape}"
            )
        return results

    def scale(self, symbols: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """From 0 ... num_numerals - 1 to [-1, 1]."""
        return symbols * (2 / (self.num_numerals - 1)) - 1

    def unscale(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """From [-1, 1] to 0 ... num_numerals - 1, rounded; what lies outside is not clamped."""
        return round_off((values + 1) * ((self.num_numerals - 1) / 2))

    def parse(self, text: str) -> tuple[int, ...]:
        if self.num_numerals <= 10 and text.isascii() and text.isdigit():
            text = " ".join(text)  # digits need no spaces between them
        return parse_numerals("problem", text, self.num_numerals)

    def format_problem(self, problem: Sequence[int]) -> str:
        return format_entries(problem)


class Sort(AbstractNumeralTask):
    """The numerals in ascending order.

    >>> Sort().solve((2, 4, 2, 1, 3))
    (1, 2, 2, 3, 4)
    """

    name = "sort"
    summary = "the numerals in ascending order"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return np.sort(numerals, axis=1)


class Copy(AbstractNumeralTask):
    """The numerals unchanged.

    >>> Copy().solve((2, 4, 2, 1, 3))
    (2, 4, 2, 1, 3)
    """

    name = "copy"
    summary = "the numerals unchanged"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return numerals


class Differentiation(AbstractNumeralTask):
    """Absolute differences of successive numerals, then a constant 0 to fill the length.

    >>> Differentiation().solve((2, 4, 2, 1, 3))
    (2, 2, 1, 2, 0)
    """

    name = "differentiation"
    summary = "absolute differences of successive numerals, then a 0"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return np.abs(np.diff(numerals, axis=1, append=numerals[:, -1:]))


class Shift(AbstractNumeralTask):
    """The numerals shifted right by half the length (rounded down), circularly.

    >>> Shift().solve((2, 4, 2, 1, 3))
    (1, 3, 2, 4, 2)
    """

    name = "shift"
    summary = "the numerals shifted right by half their number, circularly"

    def rule(self, numerals: Int[np.ndarray, "batch length"]) -> Int[np.ndarray, "batch length"]:
        return np.roll(numerals, numerals.shape[1] // 2, axis=1)


def accepted_numerals(count: int) -> str:
    """The numerals of an alphabet, in words."""
    return f"numerals from 0 to {count - 1}"


def draw_numerals(
    generator: np.random.Generator, batch_size: int, length: int, count: int
) -> tuple[tuple[int, ...], ...]:
    """Uniform numerals below `count`."""
    return tuple(map(tuple, generator.integers(count, size=(batch_size, length)).tolist()))


def check_numerals(setting: str, numerals: Any, count: int) -> None:
    """Refuse anything but a sequence of at least one numeral below `count`."""
    is_sequence = isinstance(numerals, Sequence) and not isinstance(numerals, str)
    if (
        not is_sequence
        or not numerals
        or not all(type(value) is int and 0 <= value < count for value in numerals)
    ):
        raise SettingError(setting, numerals, f"a sequence of {accepted_numerals(count)}")


def parse_numerals(setting: str, text: str, count: int) -> tuple[int, ...]:
    """Numerals from text, separated by spaces or commas.

    >>> parse_numerals("problem", "3 1 4, 1, 0", 5)
    (3, 1, 4, 1, 0)
    """
    words = re.split(r"[\s,]+", text.strip())
    if not all(re.fullmatch("[0-9]{1,9}", word) and int(word) < count for word in words):
        example = "such as '3 1 4 1 0'" if count >= NUM_NUMERALS else "such as '1 0 1'"
        accepted = f"{accepted_numerals(count)}, separated by spaces, {example}"
        raise SettingError(setting, text, accepted)
    return tuple(map(int, words))
