"""Tasks that read tokens and answer with tokens, each chosen by a softmax."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import takewhile
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from constrained_dnc.errors import SettingError
from constrained_dnc.plugins import naming_failures
from constrained_dnc.tasks.entries import integer_or_none
from constrained_dnc.tasks.problems import AbstractProblemTask
from constrained_dnc.tasks.task import AbstractTask, Batch, CellLabels, Problem, Scores

Symbols: TypeAlias = Integer[np.ndarray, "batch steps"]
Answers: TypeAlias = Int[np.ndarray, "batch answers"]


class AbstractTokenTask(AbstractProblemTask):
    """Tokens in, one at a step; then a blank step for each token of the answer, read at that step.

    Inputs are one-hot, with a last channel for the blank. Outputs are the logits of the answer's
    tokens. A subclass needs a name, a summary and `answer`. Problems are tuples of token numbers.

    >>> class Parity(AbstractTokenTask):
    ...     name = "parity"
    ...     summary = "whether the number of ones is odd"
    ...
    ...     def answer(self, symbols):
    ...         return symbols.sum(axis=1, keepdims=True) % 2
    >>> Parity().solve(Parity().parse("1101"))
    (1,)
    """

    tokens: ClassVar[tuple[str, ...]] = ("0", "1")
    """The input tokens as text."""
    answer_tokens: ClassVar[tuple[str, ...]] = ("0", "1")
    """The output tokens as text."""
    end: ClassVar[int | None] = None
    """The output token that ends answers of varying length; what follows it is not scored."""
    pattern: ClassVar[str] = ".*"
    """A regular expression for the text of a whole problem."""
    example: ClassVar[str] = ""
    """A problem as text, for messages."""
    loss = "softmax"

    def __init_subclass__(cls, **arguments: Any):
        super().__init_subclass__(**arguments)
        answer = vars(cls).get("answer")
        if answer is not None and not getattr(answer, "__isabstractmethod__", False):
            cls.answer = _checked_answer(answer)  # type: ignore[method-assign]

    @property
    def input_channels(self) -> tuple[str, ...]:
        return (*self.tokens, "blank")

    @property
    def output_channels(self) -> tuple[str, ...]:
        return self.answer_tokens

    @abc.abstractmethod
    def answer(self, symbols: Symbols) -> Answers:
        """The tokens of the answers; what follows the end token has no effect.

        Args:
            symbols: the input tokens of a batch, as numbers.
        """

    def draw_symbols(self, generator: np.random.Generator, batch_size: int, length: int) -> Symbols:
        """Random problems; by default `length` uniform tokens.

        Args:
            generator: the source of randomness.
            batch_size: the number of problems.
            length: the input length.
        """
        return generator.integers(len(self.tokens), size=(batch_size, length))

    def num_tokens(self, length: int) -> int:
        """The steps of the input.

        Args:
            length: the input length.
        """
        return length

    def num_answers(self, length: int) -> int:
        """The steps of the answer; by default found by answering a problem.

        Args:
            length: the input length.
        """
        problem = self.draw_symbols(np.random.default_rng(0), 1, length)
        return self.answer(problem).shape[1]

    def num_steps(self, length: int) -> int:
        return self.num_tokens(length) + self.num_answers(length)

    def encoding_steps(self, length: int) -> int:
        return self.num_tokens(length)

    def draw(
        self, generator: np.random.Generator, batch_size: int, length: int
    ) -> tuple[Problem, ...]:
        return tuple(map(tuple, self.draw_symbols(generator, batch_size, length).tolist()))

    def check(self, problem: Problem) -> None:
        is_sequence = isinstance(problem, Sequence) and not isinstance(problem, str)
        numbers = range(len(self.tokens))
        if not is_sequence or not all(type(token) is int and token in numbers for token in problem):
            accepted = f"numbers of the tokens {' '.join(self.tokens)}, from 0 to {numbers[-1]}"
            raise SettingError("problem", problem, accepted)
        text = self.format_problem(problem)
        if not problem or not re.fullmatch(self.pattern, text):
            self._refuse(text)

    def encode(self, problems: tuple[Problem, ...]) -> Batch:
        symbols = np.array(problems)
        answers = self.answer(symbols)
        scored = self.scored(answers)
        (batch_size, given), asked = symbols.shape, answers.shape[1]
        inputs = np.zeros((given + asked, batch_size, self.input_size), np.float32)
        inputs[:given, :, :-1] = symbols.T[:, :, np.newaxis] == np.arange(len(self.tokens))
        inputs[given:, :, -1] = 1.0
        targets = np.zeros((given + asked, batch_size, self.output_size), np.float32)
        chosen = answers.T[:, :, np.newaxis] == np.arange(len(self.answer_tokens))
        targets[given:] = chosen & scored.T[:, :, np.newaxis]
        mask = np.zeros((given + asked, batch_size), np.bool_)
        mask[given:] = scored.T
        length = self.length_of(problems[0])
        return Batch(inputs, targets, mask, given + scored.sum(axis=1), length, problems)

    def scored(self, answers: Answers) -> Bool[np.ndarray, "batch answers"]:
        """Which tokens of the answers are trained and scored: all up to the end token.

        Args:
            answers: what `answer` returned.
        """
        is_end = answers == self.end
        return is_end.cumsum(axis=1) - is_end == 0

    def solve(self, problem: Problem) -> tuple[int | None, ...]:
        return self._until_end(self.answer(np.array([problem]))[0].tolist())

    def read(
        self, outputs: Float[np.ndarray, "time batch outputs"], length: int
    ) -> list[tuple[int | None, ...]]:
        """The chosen tokens before the end token; None where an output is not finite."""
        chosen = self.entry_values(outputs[self.num_tokens(length) :])[:, :, 0]
        return [self._until_end(map(integer_or_none, row)) for row in chosen.T.tolist()]

    def grade(self, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]) -> Scores:
        return AbstractTask.grade(self, batch, outputs)

    def parse(self, text: str) -> tuple[int, ...]:
        """Tokens, with or without spaces if each is one character."""
        words = list("".join(text.split())) if self._are_characters else text.split()
        if not words or not set(words) <= set(self.tokens):
            self._refuse(text)
        problem = tuple(map(self.tokens.index, words))
        self.check(problem)
        return problem

    def format_problem(self, problem: Problem) -> str:
        return ("" if self._are_characters else " ").join(self.tokens[token] for token in problem)

    def format_entry(self, entry: int | None) -> str:
        return "?" if entry is None else self.answer_tokens[entry]

    def format_answer(self, answer: Sequence[int | None]) -> str:
        return super().format_answer(answer) or "none"

    def cell_labels(self, problem: Problem) -> tuple[CellLabels, CellLabels]:
        answers = self.answer(np.array([problem]))
        count, given = int(self.scored(answers).sum()), len(problem)
        blanks = {given + step: "1" for step in range(answers.shape[1])}
        inputs = _labels(self.tokens, problem, 0) | {"blank": blanks}
        return inputs, _labels(self.answer_tokens, answers[0, :count].tolist(), given)

    def output_labels(self, outputs: Float[np.ndarray, "time outputs"], length: int) -> CellLabels:
        given = self.num_tokens(length)
        chosen = self.entry_values(outputs[given:])[:, 0].tolist()
        return _labels(self.answer_tokens, list(map(integer_or_none, chosen)), given)

    @property
    def _are_characters(self) -> bool:
        return all(len(token) == 1 for token in self.tokens)

    def _until_end(self, tokens: Iterable[int | None]) -> tuple[int | None, ...]:
        return tuple(takewhile(lambda token: token is None or token != self.end, tokens))

    def _refuse(self, text: str) -> NoReturn:
        problem = self.example or self.format_problem(self.draw(np.random.default_rng(0), 1, 5)[0])
        tokens = f"the tokens {' '.join(self.tokens)}"
        raise SettingError("problem", text, f"made of {tokens}, such as {problem!r}")


def _checked_answer(answer: Callable[..., Any]) -> Callable[..., Answers]:
    """`answer` with a check of what it returns, and one sentence for a failure."""

    @wraps(answer)
    def checked(self: AbstractTokenTask, symbols: Symbols) -> Answers:
        symbols = np.asarray(symbols, np.int64)
        name = f"answer of the task {self.name}"
        with naming_failures(name):
            answers = np.asarray(answer(self, symbols))
        is_integer = answers.dtype.kind in "iu"
        if not is_integer or answers.ndim != 2 or len(answers) != len(symbols):
            found = f"{answers.dtype} of shape {answers.shape}"
            accepted = f"integers of shape ({len(symbols)}, answers)"
            raise SettingError(f"{name} returned {found}, not {accepted}")
        if answers.size and not 0 <= answers.min() <= answers.max() < len(self.answer_tokens):
            worst = answers.min() if answers.min() < 0 else answers.max()
            accepted = f"a number of the tokens {' '.join(self.answer_tokens)}"
            raise SettingError(f"{name} returned {worst}, which is not {accepted}")
        return answers

    return checked


def _labels(names: Sequence[str], chosen: Sequence[int | None], first: int) -> CellLabels:
    """A mark in the channel of each chosen token, from the step `first` on."""
    labels: CellLabels = {name: {} for name in names}
    for step, token in enumerate(chosen, first):
        if token is not None:
            labels[names[token]][step] = "1"
    return labels
