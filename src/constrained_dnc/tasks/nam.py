"""Three tasks of "Neural Attention Memory" (Nam et al., 2022), on decimal digits."""

from __future__ import annotations

import numpy as np

from constrained_dnc.tasks.task import AbstractTask, Problem
from constrained_dnc.tasks.tokens import AbstractTokenTask, Answers, Symbols

DIGITS = tuple(map(str, range(10)))


class Palindrome(AbstractTokenTask):
    """The second half of a palindrome: the digits backwards.

    >>> task = Palindrome()
    >>> task.solve(task.parse("31415"))
    (5, 1, 4, 1, 3)
    """

    name = "nam/palindrome"
    summary = "the digits backwards"
    tokens = answer_tokens = DIGITS

    def answer(self, symbols: Symbols) -> Answers:
        return symbols[:, ::-1]


class Reduce(AbstractTokenTask):
    """The digits without the zeros.

    >>> task = Reduce()
    >>> task.solve(task.parse("30405"))
    (3, 4, 5)
    """

    name = "nam/reduce"
    summary = "the digits without the zeros"
    tokens = DIGITS
    answer_tokens = (*DIGITS, "end")
    end = 10

    def num_answers(self, length: int) -> int:
        return length + 1

    def answer(self, symbols: Symbols) -> Answers:
        kept_first = np.argsort(symbols == 0, axis=1, kind="stable")
        digits = np.pad(np.take_along_axis(symbols, kept_first, axis=1), ((0, 0), (0, 1)))
        count = (symbols != 0).sum(axis=1, keepdims=True)
        np.put_along_axis(digits, count, self.end, axis=1)
        return digits


class Fibonacci(AbstractTokenTask):
    """The next number of a Fibonacci sequence: the sum of two numbers, lowest digit first.

    >>> task = Fibonacci()
    >>> task.solve(task.parse("85,98"))  # 58 + 89
    (7, 4, 1)
    """

    name = "nam/fibonacci"
    summary = "the sum of two numbers, lowest digit first"
    tokens = (*DIGITS, ",")
    answer_tokens = DIGITS
    pattern = r"(\d+),(\d+)"
    example = "85,98"
    COMMA = 10

    def length_of(self, problem: Problem) -> int:
        return len(problem) // 2

    def num_tokens(self, length: int) -> int:
        return 2 * length + 1

    def num_answers(self, length: int) -> int:
        return length + 1

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.index(self.COMMA) != len(problem) // 2 or len(problem) % 2 == 0:
            self._refuse(self.format_problem(problem))

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        symbols = generator.integers(len(DIGITS), size=(batch_size, 2 * length + 1))
        symbols[:, length] = self.COMMA
        return symbols

    def answer(self, symbols: Symbols) -> Answers:
        length = symbols.shape[1] // 2
        sums = np.pad(symbols[:, :length] + symbols[:, length + 1 :], ((0, 0), (0, 1)))
        for place in range(length):
            sums[:, place + 1] += sums[:, place] // 10
        return sums % 10


TASKS: tuple[type[AbstractTask], ...] = (Palindrome, Reduce, Fibonacci)
