"""The 15 tasks of "Neural Networks and the Chomsky Hierarchy" (Delétang et al., ICLR 2023).

Written from the definitions; inputs have the published distribution. Some tasks need an odd or an
even number of tokens and have one less, or one that says nothing, at other lengths.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int

from constrained_dnc.tasks.task import AbstractTask, Problem
from constrained_dnc.tasks.tokens import AbstractTokenTask, Answers, Symbols

DIGITS = ("0", "1", "2", "3", "4")
MODULUS = len(DIGITS)
PLUS, MINUS, TIMES, OPEN, CLOSE = range(MODULUS, MODULUS + 5)


# Regular


class EvenPairs(AbstractTokenTask):
    """Whether the number of unequal neighbours is odd; equally, whether first and last differ.

    >>> task = EvenPairs()
    >>> task.solve(task.parse("0110")), task.solve(task.parse("0111"))
    ((0,), (1,))
    """

    name = "chomsky/even-pairs"
    summary = "whether the number of unequal neighbours is odd"

    def answer(self, symbols: Symbols) -> Answers:
        unequal = symbols[:, 1:] != symbols[:, :-1]
        return unequal.sum(axis=1, keepdims=True) % 2


class ParityCheck(AbstractTokenTask):
    """Whether the number of ones is odd.

    >>> task = ParityCheck()
    >>> task.solve(task.parse("0111"))
    (1,)
    """

    name = "chomsky/parity-check"
    summary = "whether the number of ones is odd"

    def answer(self, symbols: Symbols) -> Answers:
        return symbols.sum(axis=1, keepdims=True) % 2


class CycleNavigation(AbstractTokenTask):
    """The place on a cycle of five after steps back (-), none (0) and forward (+), from 0.

    >>> task = CycleNavigation()
    >>> task.solve(task.parse("+0+")), task.solve(task.parse("-"))
    ((2,), (4,))
    """

    name = "chomsky/cycle-navigation"
    summary = "the place on a cycle of five after steps back, none and forward"
    tokens = ("-", "0", "+")
    answer_tokens = DIGITS

    def answer(self, symbols: Symbols) -> Answers:
        return (symbols - 1).sum(axis=1, keepdims=True) % MODULUS


class ModularArithmetic(AbstractTokenTask):
    """The value of digits, +, - and * modulo 5, products first; at even lengths a token less.

    >>> task = ModularArithmetic()
    >>> task.solve(task.parse("4-3*2"))
    (3,)
    """

    name = "chomsky/modular-arithmetic"
    summary = "the value of an expression without brackets, modulo 5"
    tokens = (*DIGITS, "+", "-", "*", "_")  # the last one is never used, as published
    answer_tokens = DIGITS
    pattern = r"[0-4]([-+*][0-4])*"
    example = "1+2*3"

    def num_tokens(self, length: int) -> int:
        return length - (length + 1) % 2

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        symbols = generator.integers(MODULUS, size=(batch_size, self.num_tokens(length)))
        operators = symbols[:, 1::2]
        operators[:] = generator.integers(PLUS, TIMES + 1, size=operators.shape)
        return symbols

    def answer(self, symbols: Symbols) -> Answers:
        total, product = np.zeros_like(symbols[:, 0]), symbols[:, 0]
        for operator, digit in zip(symbols[:, 1::2].T, symbols[:, 2::2].T, strict=True):
            is_factor = operator == TIMES
            total = np.where(is_factor, total, total + product) % MODULUS
            signed = np.where(operator == MINUS, -digit, digit)
            product = np.where(is_factor, product * digit, signed) % MODULUS
        return (total + product)[:, np.newaxis] % MODULUS


# Deterministic context-free


class ModularArithmeticBrackets(AbstractTokenTask):
    """The value of an expression with brackets, modulo 5.

    >>> task = ModularArithmeticBrackets()
    >>> task.solve(task.parse("((0*2)+(-3))"))
    (2,)
    """

    name = "chomsky/modular-arithmetic-brackets"
    summary = "the value of an expression with brackets, modulo 5"
    tokens = (*DIGITS, "+", "-", "*", "(", ")", "=")  # the last one is never used, as published
    answer_tokens = DIGITS
    example = "((1+2)*-3)"

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        return draw_expressions(generator, batch_size, length, (PLUS, MINUS, TIMES))

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if not is_expression(problem):
            self._refuse(self.format_problem(problem))

    def answer(self, symbols: Symbols) -> Answers:
        return evaluate(symbols)[:, np.newaxis]


class SolveEquation(AbstractTokenTask):
    """The x that solves an equation modulo 5; at lengths 1 and 2 the answer is 0.

    >>> task = SolveEquation()
    >>> task.solve(task.parse("(1-(x+2))=3"))
    (1,)
    """

    name = "chomsky/solve-equation"
    summary = "the x that solves an equation modulo 5"
    tokens = (*DIGITS, "+", "-", "(", ")", "x", "=")
    answer_tokens = DIGITS
    pattern = r"0|00|[^x=]*x[^x=]*=[0-4]"
    example = "(1-x)=3"
    X, EQUALS = 9, 10
    IN_EXPRESSIONS: ClassVar = np.array([*range(MODULUS), PLUS, MINUS, OPEN, CLOSE, 0, 0])

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        if length <= 2:
            return np.zeros((batch_size, length), np.int64)
        expressions = draw_expressions(generator, batch_size, length - 2, (PLUS, MINUS))
        symbols = np.empty((batch_size, length), np.int64)
        symbols[:, :-2] = np.where(expressions > TIMES, expressions - 1, expressions)
        symbols[:, -2], symbols[:, -1] = self.EQUALS, evaluate(expressions)
        priority = generator.random(expressions.shape) * (expressions < MODULUS)
        symbols[np.arange(batch_size), priority.argmax(axis=1)] = self.X
        return symbols

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if len(problem) > 2 and not is_expression(self.IN_EXPRESSIONS[list(problem[:-2])].tolist()):
            self._refuse(self.format_problem(problem))

    def answer(self, symbols: Symbols) -> Answers:
        if symbols.shape[1] <= 2:
            return np.zeros_like(symbols[:, :1])
        is_x, expressions = symbols[:, :-2] == self.X, self.IN_EXPRESSIONS[symbols[:, :-2]]
        left = [evaluate(np.where(is_x, x, expressions)) for x in range(MODULUS)]
        return np.argmax(np.array(left) == symbols[:, -1], axis=0)[:, np.newaxis]


class ReverseString(AbstractTokenTask):
    """The string backwards.

    >>> task = ReverseString()
    >>> task.solve(task.parse("0111"))
    (1, 1, 1, 0)
    """

    name = "chomsky/reverse-string"
    summary = "the string backwards"

    def answer(self, symbols: Symbols) -> Answers:
        return symbols[:, ::-1]


class StackManipulation(AbstractTokenTask):
    """The stack, top first, after pops and pushes; the input begins with it, top last.

    A pop of an empty stack has no effect.

    >>> task = StackManipulation()
    >>> task.solve(task.parse("0 1 1 pop pop push1"))
    (1, 0)
    """

    name = "chomsky/stack-manipulation"
    summary = "a stack after pops and pushes, top first"
    tokens = ("0", "1", "pop", "push0", "push1")
    answer_tokens = ("0", "1", "end")
    end = 2
    pattern = r"[01]( [01])*( p\w+)*"
    example = "0 1 1 pop push0"

    def num_answers(self, length: int) -> int:
        return length + 1

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        elements = generator.integers(2, size=(batch_size, length))
        actions = generator.integers(2, 5, size=(batch_size, length))
        height = generator.integers(1, max(length, 2), size=(batch_size, 1))
        return np.where(np.arange(length) < height, elements, actions)

    def answer(self, symbols: Symbols) -> Answers:
        batch_size, length = symbols.shape
        samples, height = np.arange(batch_size), np.zeros(batch_size, np.int64)
        stack = np.zeros((batch_size, length + 1), np.int64)
        for token in symbols.T:
            is_pop = token == 2
            stack[samples, height] = np.where(token > 2, token - 3, token)  # a pop's is unused
            height = np.maximum(height + np.where(is_pop, -1, 1), 0)
        below_top = height[:, np.newaxis] - 1 - np.arange(length + 1)
        tokens = np.take_along_axis(stack, np.maximum(below_top, 0), axis=1)
        return np.where(below_top >= 0, tokens, np.where(below_top == -1, self.end, 0))


# Context-sensitive


class DuplicateString(AbstractTokenTask):
    """The string twice.

    >>> task = DuplicateString()
    >>> task.solve(task.parse("011"))
    (0, 1, 1, 0, 1, 1)
    """

    name = "chomsky/duplicate-string"
    summary = "the string twice"

    def answer(self, symbols: Symbols) -> Answers:
        return np.tile(symbols, (1, 2))


class MissingDuplicateString(AbstractTokenTask):
    """The token that is missing (_) in a string written twice; a dot fills odd lengths.

    >>> task = MissingDuplicateString()
    >>> task.solve(task.parse("01_00110")), task.solve(task.parse("0_."))
    ((1,), (0,))
    """

    name = "chomsky/missing-duplicate-string"
    summary = "the token that is missing in a string written twice"
    tokens = ("0", "1", "_", ".")
    pattern = r"1|[01]*_[01]*\.?"
    example = "01_1"
    MISSING, FILL = 2, 3

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        if length == 1:
            return np.ones((batch_size, 1), np.int64)
        strings = np.tile(generator.integers(2, size=(batch_size, length // 2)), (1, 2))
        missing = generator.integers(strings.shape[1], size=batch_size)
        strings[np.arange(batch_size), missing] = self.MISSING
        return np.pad(strings, ((0, 0), (0, length % 2)), constant_values=self.FILL)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        half = len(problem) // 2
        differing = sum(x != y for x, y in zip(problem, problem[half : 2 * half], strict=False))
        is_filled = problem[-1] == self.FILL
        if half and (differing != 1 or is_filled != len(problem) % 2):
            self._refuse(self.format_problem(problem))

    def answer(self, symbols: Symbols) -> Answers:
        half = symbols.shape[1] // 2
        if not half:
            return symbols
        missing = (symbols == self.MISSING).argmax(axis=1)
        return np.take_along_axis(symbols, (missing[:, np.newaxis] + half) % (2 * half), axis=1)


class OddsFirst(AbstractTokenTask):
    """The tokens at odd positions, counted from 0, then those at even ones.

    >>> task = OddsFirst()
    >>> task.solve(task.parse("00110"))
    (0, 1, 0, 1, 0)
    """

    name = "chomsky/odds-first"
    summary = "the tokens at odd positions, counted from 0, then the others"

    def answer(self, symbols: Symbols) -> Answers:
        return np.concatenate((symbols[:, 1::2], symbols[:, ::2]), axis=1)


class BinaryAddition(AbstractTokenTask):
    """The sum of two binary numbers, all of them with the lowest digit first.

    The input has no + at lengths 1 and 2.

    >>> task = BinaryAddition()
    >>> task.solve(task.parse("01+11"))  # 2 + 3
    (1, 0, 1)
    """

    name = "chomsky/binary-addition"
    summary = "the sum of two binary numbers, lowest digit first"
    tokens = ("0", "1", "+")
    answer_tokens = ("0", "1", "end")
    end = 2
    pattern = r"[01]{1,2}|[01]+\+[01]+"
    example = "01+11"
    OPERATOR = 2

    def num_answers(self, length: int) -> int:
        return length + 1

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        if length <= 2:
            numbers = generator.integers(2**length - 1, size=(batch_size, 1))
            return numbers >> np.arange(length) & 1
        operator = generator.integers(1, length - 1, size=(batch_size, 1))
        first, second = np.arange(length) < operator, np.arange(length) > operator
        symbols = draw_nonzero(generator, first) + draw_nonzero(generator, second)
        np.put_along_axis(symbols, operator, self.OPERATOR, axis=1)
        return symbols

    def answer(self, symbols: Symbols) -> Answers:
        is_operator = symbols == self.OPERATOR
        is_second = is_operator.cumsum(axis=1) > 0
        first = integers(np.where(is_second, 0, symbols))
        ends = np.where(is_second.any(axis=1), is_operator.argmax(axis=1) + 1, symbols.shape[1])
        both = integers(np.where(is_operator, 0, symbols))
        second = [both_ >> int(end) for both_, end in zip(both, ends, strict=True)]
        results = [self.combine(x, y) for x, y in zip(first, second, strict=True)]
        answers = digits(results, self.num_answers(symbols.shape[1]))
        count = np.array([max(result.bit_length(), 1) for result in results])
        last = np.minimum(count, answers.shape[1] - 1)[:, np.newaxis]
        np.put_along_axis(answers, last, self.end, axis=1)
        return answers

    def combine(self, first: int, second: int) -> int:
        """The result for two numbers."""
        return first + second


class BinaryMultiplication(BinaryAddition):
    """The product of two binary numbers, all of them with the lowest digit first.

    The input has no * at lengths 1 and 2, where the product is 0.

    >>> task = BinaryMultiplication()
    >>> task.solve(task.parse("01*11"))  # 2 * 3
    (0, 1, 1)
    """

    name = "chomsky/binary-multiplication"
    summary = "the product of two binary numbers, lowest digit first"
    tokens = ("0", "1", "*")
    pattern = r"[01]{1,2}|[01]+\*[01]+"
    example = "01*11"

    def num_answers(self, length: int) -> int:
        return length

    def combine(self, first: int, second: int) -> int:
        return first * second


class ComputeSqrt(AbstractTokenTask):
    """The square root of a binary number, rounded down, both with the highest digit first.

    >>> task = ComputeSqrt()
    >>> task.solve(task.parse("11010"))  # 26
    (1, 0, 1)
    """

    name = "chomsky/compute-sqrt"
    summary = "the square root of a binary number, rounded down"

    def num_answers(self, length: int) -> int:
        return (length + 1) // 2

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        return draw_nonzero(generator, np.ones((batch_size, length), np.bool_))

    def answer(self, symbols: Symbols) -> Answers:
        roots = [math.isqrt(number) for number in integers(symbols[:, ::-1])]
        return digits(roots, self.num_answers(symbols.shape[1]))[:, ::-1]


class BucketSort(AbstractTokenTask):
    """The numerals in ascending order.

    >>> task = BucketSort()
    >>> task.solve(task.parse("42103"))
    (0, 1, 2, 3, 4)
    """

    name = "chomsky/bucket-sort"
    summary = "the numerals in ascending order"
    tokens = answer_tokens = DIGITS

    def answer(self, symbols: Symbols) -> Answers:
        return np.sort(symbols, axis=1)


TASKS: tuple[type[AbstractTask], ...] = (
    EvenPairs,
    ModularArithmetic,
    ParityCheck,
    CycleNavigation,
    StackManipulation,
    ReverseString,
    ModularArithmeticBrackets,
    SolveEquation,
    DuplicateString,
    MissingDuplicateString,
    OddsFirst,
    BinaryAddition,
    BinaryMultiplication,
    ComputeSqrt,
    BucketSort,
)


def draw_expressions(
    generator: np.random.Generator, batch_size: int, length: int, operators: Sequence[int]
) -> Symbols:
    """Random expressions of `length` tokens; all nodes of a level of the trees at once.

    An expression is a digit, a digit with a minus, one of these in brackets, or (left operator
    right), with uniform digits, operator and length of the left side.

    Args:
        generator: the source of randomness.
        batch_size: the number of expressions.
        length: the number of tokens of each.
        operators: the tokens of the operators between two expressions.
    """
    tokens = np.empty(batch_size * length, np.int64)
    start = np.arange(batch_size) * length  # of each node of the level
    size = np.full(batch_size, length)
    while start.size:
        in_brackets = size >= 3
        tokens[start[in_brackets]] = OPEN
        tokens[(start + size - 1)[in_brackets]] = CLOSE
        is_leaf = size <= 4
        last = (start + size - 1 - in_brackets)[is_leaf]
        tokens[last] = generator.integers(MODULUS, size=last.size)
        tokens[last[size[is_leaf] % 2 == 0] - 1] = MINUS
        start, size = start[~is_leaf], size[~is_leaf]
        left = generator.integers(1, size - 3)
        middle = start + 1 + left
        tokens[middle] = generator.choice(operators, size=middle.size)
        start = np.concatenate((start + 1, middle + 1))
        size = np.concatenate((left, size - 3 - left))
    return tokens.reshape(batch_size, length)


def evaluate(expressions: Symbols) -> Int[np.ndarray, "batch"]:
    """The values of expressions modulo 5, read token by token with a stack of open brackets."""
    batch_size = len(expressions)
    samples, depth = np.arange(batch_size), np.zeros(batch_size, np.int64)
    levels = 1 + (expressions == OPEN).sum(axis=1).max()
    value = np.zeros((batch_size, levels), np.int64)
    sign = np.ones((batch_size, levels), np.int64)  # of the next operand
    is_factor = np.zeros((batch_size, levels), np.bool_)  # the next operand
    follows_operand = np.zeros(batch_size, np.bool_)
    for token in expressions.T:
        inner = value[samples, depth]
        depth = depth + (token == OPEN) - (token == CLOSE)
        here = samples, depth
        is_operand = (token < MODULUS) | (token == CLOSE)
        operand = sign[here] * np.where(token == CLOSE, inner, token)
        combined = np.where(is_factor[here], value[here] * operand, value[here] + operand)
        value[here] = np.where(is_operand, combined % MODULUS, value[here]) * (token != OPEN)
        # a minus after an operand is an operator, "plus the opposite of"; any other is a sign
        starts_sum = (token == PLUS) | (token == OPEN) | (token == MINUS) & follows_operand
        sign[here] = np.where(is_operand | starts_sum, 1, sign[here])
        sign[here] = np.where(token == MINUS, -sign[here], sign[here])
        is_factor[here] = (is_factor[here] & ~starts_sum) | (token == TIMES)
        follows_operand = is_operand
    return value[:, 0]


def is_expression(tokens: Sequence[int]) -> bool:
    """Whether tokens form an expression; operators need brackets around them and both operands."""
    text, longer = "".join("00000+-*()="[token] for token in tokens), ""
    while text != longer:
        longer, text = text, re.sub(r"\(-?0([-+*]-?0)?\)", "0", text)
    return re.fullmatch("-?0", text) is not None


def draw_nonzero(
    generator: np.random.Generator, is_digit: Bool[np.ndarray, "batch steps"]
) -> Symbols:
    """Uniform binary numbers above 0, in the given columns; 0 elsewhere."""
    bits = generator.integers(2, size=is_digit.shape) * is_digit
    while (is_zero := ~bits.any(axis=1)).any():
        bits[is_zero] = generator.integers(2, size=bits[is_zero].shape) * is_digit[is_zero]
    return bits


def integers(bits: Symbols) -> list[int]:
    """Binary numbers, lowest digit first, as integers of any size."""
    packed = np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def digits(numbers: Iterable[int], count: int) -> Answers:
    """Integers as binary numbers of `count` digits, lowest first."""
    packed = b"".join(number.to_bytes(count // 8 + 1, "little") for number in numbers)
    rows = np.frombuffer(packed, np.uint8).reshape(-1, count // 8 + 1)
    return np.unpackbits(rows, axis=1, count=count, bitorder="little").astype(np.int64)
