"""The add task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.sequence import AbstractSequenceTask
from constrained_dnc.tasks.task import Problem

Bits = Sequence[tuple[int, int]]


class Add(AbstractSequenceTask):
    """Element-wise sums of two binary sequences, without carry.

    >>> task = Add()
    >>> problem = ((0, 1), (0, 0), (1, 1), (1, 0), (1, 0))
    >>> task.solve(problem)
    (1, 0, 2, 1, 1)
    >>> task.format_problem(problem)
    '00111 + 10100'

    The network gives a sum as two bits, the high one first; a bit is 1 if its output is above 0.
    Hence a wrong answer may contain a 3, and the score counts bits.
    """

    name = "add"
    summary = "element-wise sums of two binary sequences, without carry"
    input_channels = ("first", "second", "control")
    output_channels = ("high bit", "low bit", "signal")

    def draw(
        self, generator: np.random.Generator, batch_size: int, length: int
    ) -> tuple[Bits, ...]:
        bits = generator.integers(2, size=(batch_size, 2, length)).tolist()
        return tuple(tuple(zip(first, second, strict=True)) for first, second in bits)

    def check(self, problem: Problem) -> None:
        is_sequence = isinstance(problem, Sequence) and not isinstance(problem, str)
        if not is_sequence or not problem or not all(map(_is_pair, problem)):
            raise SettingError("problem", problem, "a sequence of pairs of bits (0 or 1)")

    def solve(self, problem: Bits) -> tuple[int, ...]:
        return tuple(first + second for first, second in problem)

    def symbols(self, problems: tuple[Bits, ...]) -> Int[np.ndarray, "batch length columns"]:
        bits = chain.from_iterable(chain.from_iterable(problems))  # np.array is three times slower
        return np.fromiter(bits, np.int64).reshape(len(problems), -1, 2)

    def results(
        self, symbols: Int[np.ndarray, "batch length columns"]
    ) -> Int[np.ndarray, "batch length results"]:
        sums = symbols.sum(axis=2)
        return np.stack((sums // 2, sums % 2), axis=2)

    def scale(self, symbols: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Bits as -1 and 1."""
        return symbols * 2.0 - 1.0

    def unscale(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Bits by sign."""
        return np.where(np.isfinite(values), values > 0, np.nan)

    def entries(
        self, symbols: Float[np.ndarray, "batch length results"]
    ) -> Float[np.ndarray, "batch length"]:
        return symbols @ (2.0, 1.0)

    def parse(self, text: str) -> Bits:
        match = re.fullmatch(r"\s*([01]+)\s*\+\s*([01]+)\s*", text, re.ASCII)
        if match is None or len(match[1]) != len(match[2]):
            accepted = "two binary sequences of one length, such as '01101 + 00110'"
            raise SettingError("problem", text, accepted)
        return tuple(zip(map(int, match[1]), map(int, match[2]), strict=True))

    def format_problem(self, problem: Bits) -> str:
        return " + ".join("".join(map(str, bits)) for bits in zip(*problem, strict=True))


def _is_pair(value: object) -> bool:
    if not isinstance(value, Sequence) or len(value) != 2:
        return False
    return all(type(bit) is int and bit in (0, 1) for bit in value)
