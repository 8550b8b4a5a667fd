"""The interface of all tasks. Public methods check what they are given, then call the hooks.

A task of your own subclasses `AbstractTask` and fills in the hooks, or, when it turns a sequence
of numerals into another of the same length, `AbstractNumeralTask`, which needs only the rule.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any, ClassVar, Literal, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from numpy.typing import ArrayLike

from constrained_dnc.choices import Loss
from constrained_dnc.errors import SettingError, require_integer

Key: TypeAlias = int | Sequence[int]
Problem: TypeAlias = Any  # what is asked, as plain Python values: (3, 1, 4) or "T∧F"
Answer: TypeAlias = Any  # what is expected, as plain Python values
Spelling: TypeAlias = dict[str, dict[int, str]]
"""What a person writes in a channel at a step, counted from 0; blank where nothing stands."""


@dataclass(frozen=True)
class Batch:
    """Samples of one length, encoded for the network.

    A pytree of its four arrays, so that it goes through `jit` as it is. What JAX makes of a batch
    has no problems: with them, no compiled program would serve a second batch.
    """

    inputs: Float32[np.ndarray, "time batch inputs"]
    targets: Float32[np.ndarray, "time batch outputs"]
    mask: Bool[np.ndarray, "time batch"]  # the steps of the loss
    num_steps: Int[np.ndarray, "batch"]  # each sample's own number of steps, the rest is padding
    length: int
    problems: tuple[Problem, ...]

    def __post_init__(self) -> None:
        _register_batch()


@cache
def _register_batch() -> None:
    """Tell JAX what a batch is made of, with the first one: its import takes a while."""
    from jax.tree_util import register_pytree_node  # noqa: PLC0415

    register_pytree_node(Batch, _flatten_batch, _unflatten_batch)


def _flatten_batch(batch: Batch) -> tuple[tuple[Any, ...], int]:
    return (batch.inputs, batch.targets, batch.mask, batch.num_steps), batch.length


def _unflatten_batch(length: int, arrays: Iterable[Any]) -> Batch:
    """Whatever JAX puts in place of the arrays; hence not by the constructor."""
    batch = object.__new__(Batch)
    names = ("inputs", "targets", "mask", "num_steps", "length", "problems")
    for name, value in zip(names, (*arrays, length, ()), strict=True):
        object.__setattr__(batch, name, value)
    return batch


@dataclass(frozen=True)
class Scores:
    """One number per sample, each from 0 to 1."""

    score: Float[np.ndarray, "batch"]  # accuracy or hit rate
    sequence_accuracy: Float[np.ndarray, "batch"]  # 1 if everything is right, else 0
    recall: Float[np.ndarray, "batch"] | None = None  # search only


class AbstractTask(abc.ABC):
    """A problem given step by step (encoding), then an answer given step by step (decoding)."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line
    input_channels: ClassVar[tuple[str, ...]]
    output_channels: ClassVar[tuple[str, ...]]
    loss: ClassVar[Loss] = "squared error"
    score_kind: ClassVar[Literal["accuracy", "hit rate"]] = "accuracy"
    answer_note: ClassVar[str] = ""  # a sentence about what may stand in an answer

    @property
    def input_size(self) -> int:
        return len(self.input_channels)

    @property
    def output_size(self) -> int:
        return len(self.output_channels)

    @final
    def sample(self, key: Key, batch_size: int, length: int) -> Batch:
        """A random batch: the same key gives the same batch."""
        require_integer("batch_size", batch_size, 1)
        require_integer("length", length, 1)
        return self.encode(self.draw(generator_of(key), batch_size, length))

    @final
    def batch_of(self, problems: Sequence[Problem]) -> Batch:
        """Encode given problems, all of one length."""
        if not isinstance(problems, Sequence) or isinstance(problems, str) or not problems:
            raise SettingError("problems", problems, "a list of at least one problem")
        for problem in problems:
            self.check(problem)
        lengths = sorted({self.length_of(problem) for problem in problems})
        if len(lengths) > 1:
            raise SettingError("length of the problems", lengths, "one length for all of a batch")
        return self.encode(tuple(problems))

    @final
    def decode(self, outputs: ArrayLike, length: int) -> list[Answer]:
        """Read the answers off the network's outputs (time, batch, outputs)."""
        require_integer("length", length, 1)
        values = as_floats(outputs)
        accepted = (self.num_steps(length), "batch", self.output_size)
        if values.ndim != 3 or values.shape[::2] != accepted[::2]:
            raise SettingError("shape of outputs", values.shape, "({}, {}, {})".format(*accepted))
        return self.read(values, length)

    @final
    def score(self, batch: Batch, outputs: ArrayLike) -> Scores:
        """Compare the network's outputs with the targets of the batch, sample by sample."""
        values = as_floats(outputs)
        if values.shape != batch.targets.shape:
            raise SettingError("shape of outputs", values.shape, str(batch.targets.shape))
        return self.grade(batch, values)

    # The hooks. Outputs may hold anything, infinities and NaN too: these are never right.

    @abc.abstractmethod
    def num_steps(self, length: int) -> int:
        """Steps of a batch; depends on the length only, so that compiled code is reused."""

    def encoding_steps(self, length: int) -> int:
        """Steps of the encoding phase, the end-of-input flag included."""
        return length + 1

    def length_of(self, problem: Problem) -> int:
        """The input length of a problem."""
        return len(problem)

    @abc.abstractmethod
    def draw(
        self, generator: np.random.Generator, batch_size: int, length: int
    ) -> tuple[Problem, ...]:
        """Random problems of one length."""

    @abc.abstractmethod
    def check(self, problem: Problem) -> None:
        """Refuse what cannot be encoded."""

    @abc.abstractmethod
    def encode(self, problems: tuple[Problem, ...]) -> Batch:
        """The batch of checked problems of one length."""

    @abc.abstractmethod
    def solve(self, problem: Problem) -> Answer:
        """The rule itself, on plain values."""

    @abc.abstractmethod
    def read(self, outputs: Float[np.ndarray, "time batch outputs"], length: int) -> list[Answer]:
        """The answers in checked outputs; None stands for an entry that is not finite."""

    @abc.abstractmethod
    def grade(self, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]) -> Scores:
        """The scores of checked outputs."""

    @abc.abstractmethod
    def parse(self, text: str) -> Problem:
        """A problem from text."""

    @abc.abstractmethod
    def format_problem(self, problem: Problem) -> str:
        """The text that `parse` turns into this problem."""

    @abc.abstractmethod
    def format_answer(self, answer: Answer) -> str:
        """An answer as text, with ? for an entry that is not finite."""

    def spell(self, problem: Problem) -> tuple[Spelling, Spelling] | None:
        """What a person writes in place of the inputs and of the targets; None: the numbers."""
        return None

    def spell_outputs(self, outputs: Float[np.ndarray, "time outputs"], length: int) -> Spelling:
        """What a person reads in the outputs for one problem."""
        return {}


def generator_of(key: Key) -> np.random.Generator:
    """The random generator of a key.

    The number of parts goes first, as NumPy takes (5,) and (5, 0) for the same seed.
    """
    parts = key if isinstance(key, Sequence) and not isinstance(key, str) else (key,)
    integers = all(isinstance(part, Integral) and not isinstance(part, bool) for part in parts)
    if not parts or not integers or min(parts) < 0:
        raise SettingError("key", key, "an integer of at least 0, or several of them")
    return np.random.default_rng((len(parts), *map(int, parts)))


def as_floats(outputs: ArrayLike) -> Float[np.ndarray, "..."]:
    """Outputs in double precision, so that scaling adds no error of its own before rounding."""
    values = np.asarray(outputs)
    if values.dtype.kind not in "fiu":
        raise SettingError("type of outputs", str(values.dtype), "real numbers")
    return values.astype(np.float64)


def round_off(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Nearest integer, a half to the even one; NaN where the value is not finite."""
    return np.where(np.isfinite(values), np.rint(values), np.nan)


def integer_or_none(value: float) -> int | None:
    """A rounded entry as a plain number.

    >>> integer_or_none(3.0), integer_or_none(float("nan"))
    (3, None)
    """
    return int(value) if np.isfinite(value) else None


def format_entries(entries: Sequence[int | None]) -> str:
    """Entries side by side.

    >>> format_entries((1, None, 3))
    '1 ? 3'
    """
    return " ".join("?" if entry is None else str(entry) for entry in entries)


def format_rounded(value: float) -> str:
    """One entry that was rounded.

    >>> format_rounded(3.0), format_rounded(float("nan"))
    ('3', '?')
    """
    return format_entries((integer_or_none(value),))


def with_number(text: str, value: float) -> str:
    """What a person writes, with the network's number in brackets where it is another.

    >>> with_number("3", 0.5), with_number("1", 1.0), with_number("", 0.0)
    ('3 (0.5)', '1', '')
    """
    number = np.format_float_positional(value, precision=2, trim="-")
    return f"{text} ({number})" if text and text != number else text
