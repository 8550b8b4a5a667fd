"""The interface of all tasks.

A task needs a name, a summary and `sample`; everything else has a default. A task whose problems
can be typed and solved by hand subclasses `AbstractProblemTask` (problems.py); one that turns
numerals into equally many numerals subclasses `AbstractNumeralTask` (numeral.py) and needs a rule.
"""

from __future__ import annotations

import abc
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast, final

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from numpy.typing import ArrayLike

from constrained_dnc.errors import SettingError, one_of, require_integer
from constrained_dnc.parts import LOSSES, Loss, LossName, Softmax
from constrained_dnc.plugins import naming_failures
from constrained_dnc.tasks.entries import format_number, integer_or_none

Key: TypeAlias = int | Sequence[int]
Problem: TypeAlias = Any  # plain Python values, such as (3, 1, 4) or "T∧F"
Answer: TypeAlias = Any  # plain Python values
CellLabels: TypeAlias = dict[str, dict[int, str]]
"""The symbols that numbers stand for, by channel and step (from 0)."""


@dataclass(frozen=True)
class Batch:
    """Samples of one length, encoded for the network.

    A pytree of its four arrays. JAX drops the problems: with them, no compiled program would
    serve a second batch.
    """

    inputs: Float32[Any, "time batch inputs"]
    targets: Float32[Any, "time batch outputs"]
    mask: Bool[Any, "time batch"]  # the steps of the loss
    num_steps: Int[Any, "batch"]  # the steps of each sample; the rest is padding
    length: int
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        _register_batch()


@cache
def _register_batch() -> None:
    """Make `Batch` a pytree; JAX is imported for the first batch only, as that takes a while."""
    from jax.tree_util import register_dataclass  # noqa: PLC0415

    arrays = ["inputs", "targets", "mask", "num_steps"]
    register_dataclass(Batch, arrays, meta_fields=["length"], drop_fields=["problems"])


@dataclass(frozen=True)
class Scores:
    """One number per sample, each from 0 to 1."""

    score: Float[np.ndarray, "batch"]  # accuracy or hit rate
    sequence_accuracy: Float[np.ndarray, "batch"]  # 1 if everything is right, else 0
    recall: Float[np.ndarray, "batch"] | None = None  # search only


class DrawnSample(NamedTuple):
    """A problem of a task that has only `sample`: the arguments to draw it again."""

    length: int
    key: Key
    number: int = 1  # of the sample in its batch, from 1
    batch_size: int = 1


class AbstractTask(abc.ABC):
    """Sequences of inputs, and the targets that a network should output.

    A subclass defines `name`, `summary` and `sample`, which may return just the arrays
    `inputs, targets, mask`. The methods below `score` may be overridden.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line
    loss: ClassVar[Loss] = "squared error"
    """What training minimises: a name, `Softmax(groups)`, or a method `loss(self, outputs, batch)`
    in JAX that returns one number per sample."""
    read_as: ClassVar[LossName | Softmax] = "squared error"
    """The built-in loss whose meaning outputs have; needed beside a user-defined loss only."""
    tolerance: ClassVar[float] = 0.5  # an output is right if it is closer than this to its target
    score_kind: ClassVar[Literal["accuracy", "hit rate"]] = "accuracy"
    answer_note: ClassVar[str] = ""  # a sentence for readers of answers

    def __init_subclass__(cls, **arguments: Any):
        super().__init_subclass__(**arguments)
        loss = vars(cls).get("loss")
        if isinstance(loss, str | Softmax) and "read_as" not in vars(cls):
            cls.read_as = cast("LossName | Softmax", loss)
        sample = vars(cls).get("sample")
        if sample is not None and not getattr(sample, "__isabstractmethod__", False):
            cls.sample = _checked_sample(sample)  # type: ignore[method-assign]

    @abc.abstractmethod
    def sample(self, key: Key, batch_size: int, length: int) -> Batch:
        """A random batch, or its inputs, targets and mask, determined by the arguments.

        Args:
            key: An integer or several, for `numpy.random.default_rng(key)`.
            batch_size: The number of samples.
            length: Their input length, whatever that means for the task; at least 1.

        Returns:
            A `Batch`, or `inputs, targets, mask`. Inputs and targets have the shape (time, batch,
            channels), the mask (time, batch): true at the steps that are trained and scored. The
            number of steps, `time`, depends on the length only.
        """

    @property
    def input_channels(self) -> tuple[str, ...]:
        return tuple(f"input {1 + index}" for index in range(self._example.inputs.shape[2]))

    @property
    def output_channels(self) -> tuple[str, ...]:
        return tuple(f"output {1 + index}" for index in range(self._example.targets.shape[2]))

    @property
    def input_size(self) -> int:
        return len(self.input_channels)

    @property
    def output_size(self) -> int:
        return len(self.output_channels)

    @final
    def batch_of(self, problems: Sequence[Problem]) -> Batch:
        """Encode problems.

        Args:
            problems: At least one, all of one length.
        """
        if not isinstance(problems, Sequence) or isinstance(problems, str) or not problems:
            raise SettingError("problems", problems, "a list of at least one problem")
        for problem in problems:
            self.check(problem)
        lengths = sorted({self.length_of(problem) for problem in problems})
        if len(lengths) > 1:
            raise SettingError(f"problems of one batch have different lengths: {lengths}")
        return self.encode(tuple(problems))

    @final
    def decode(self, outputs: ArrayLike, length: int) -> list[Answer]:
        """The answers in the network's outputs.

        Args:
            outputs: Of shape (time, batch, outputs).
            length: The input length of all samples.
        """
        require_integer("length", length, 1)
        values = as_floats(outputs)
        accepted = (self.num_steps(length), "batch", self.output_size)
        if values.ndim != 3 or values.shape[::2] != accepted[::2]:
            raise SettingError("shape of outputs", values.shape, "({}, {}, {})".format(*accepted))
        answers = self.read(values, length)
        self._check_answers(answers, values.shape[1])
        return answers

    @final
    def score(self, batch: Batch, outputs: ArrayLike) -> Scores:
        """Compare the network's outputs with the targets of the batch, sample by sample.

        Args:
            batch: The samples.
            outputs: Of shape (time, batch, outputs), like the targets.
        """
        values = as_floats(outputs)
        if values.shape != batch.targets.shape:
            raise SettingError("shape of outputs", values.shape, str(batch.targets.shape))
        return self.grade(batch, values)

    # From here on, outputs may contain infinities and NaN, which are never right.

    def num_steps(self, length: int) -> int:
        """Steps of a batch.

        Args:
            length: The input length, on which alone it depends, so that compiled code is reused.
        """
        return len(self.sample(0, 1, length).inputs)

    def encoding_steps(self, length: int) -> int:
        """Steps of the encoding phase; by default those before the loss begins, but at least 1.

        Args:
            length: The input length.
        """
        return max(1, self._first_scored_step(length))

    def length_of(self, problem: Problem) -> int:
        """The input length of a problem.

        Args:
            problem: Has been checked.
        """
        return int(problem.length)

    def check(self, problem: Problem) -> None:
        """Refuse what cannot be encoded, by a `SettingError`.

        Args:
            problem: Any value that a user gave as a problem.
        """
        if not isinstance(problem, DrawnSample):
            raise SettingError("problem", problem, "text such as 'length 8, key 0'")

    def encode(self, problems: tuple[Problem, ...]) -> Batch:
        """The batch of some problems.

        Args:
            problems: At least one; they have been checked, and all have one length.
        """
        length = problems[0].length
        drawn = {(key, count): self.sample(key, count, length) for _, key, _, count in problems}
        samples = [(drawn[key, count], number - 1) for _, key, number, count in problems]
        inputs, targets, mask = (
            np.stack([getattr(batch, name)[:, index] for batch, index in samples], axis=1)
            for name in ("inputs", "targets", "mask")
        )
        num_steps = np.array([batch.num_steps[index] for batch, index in samples])
        return Batch(inputs, targets, mask, num_steps, length, problems)

    def solve(self, problem: Problem) -> Answer:
        """The correct answer.

        Args:
            problem: Has been checked.
        """
        batch = self.encode((problem,))
        return self.decode(self.perfect_outputs(batch), batch.length)[0]

    def read(self, outputs: Float[np.ndarray, "time batch outputs"], length: int) -> list[Answer]:
        """The answers in outputs; by default all outputs from the first scored step on.

        Args:
            outputs: The network's outputs; those that are not finite stand for no answer.
            length: The input length of all samples.

        Returns:
            An answer for each sample: by default a tuple of steps, each a tuple of numbers, which
            are None where they are not finite.
        """
        values = self.entry_values(outputs[self._first_scored_step(length) :])
        plain = integer_or_none if self.groups else _finite_or_none
        samples = values.swapaxes(0, 1).tolist()
        return [tuple(tuple(map(plain, step)) for step in sample) for sample in samples]

    def entry_values(
        self, outputs: Float[np.ndarray, "*axes outputs"]
    ) -> Float[np.ndarray, "*axes entries"]:
        """What outputs stand for: themselves, bits, or the choice in each group.

        Args:
            outputs: The network's outputs at any steps.

        Returns:
            A number for each channel or group; NaN where an output is not finite.
        """
        if self.read_as == "cross-entropy":
            return np.where(np.isfinite(outputs), outputs > 0, np.nan)
        if not self.groups:
            return outputs
        parts = np.split(outputs, np.cumsum(self.groups)[:-1], axis=-1)
        chosen = [np.where(np.isfinite(y).all(-1), y.argmax(-1), np.nan) for y in parts]
        return np.stack(chosen, axis=-1)

    def grade(self, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]) -> Scores:
        """The scores of outputs; by default the share of right numbers under the mask.

        Args:
            batch: The samples.
            outputs: The network's outputs; those that are not finite must not count as right.

        Returns:
            One number from 0 to 1 for each sample.
        """
        scored = np.asarray(batch.mask)[:, :, np.newaxis]
        if self.read_as == "cross-entropy":
            right = np.isfinite(outputs) & ((outputs > 0) == (batch.targets > 0.5))
        elif self.groups:
            right = self.entry_values(outputs) == self.entry_values(np.asarray(batch.targets))
        else:
            right = np.abs(outputs - batch.targets) < self.tolerance
        count = scored.sum((0, 2)) * right.shape[2]
        share = (right & scored).sum((0, 2)) / count
        return Scores(share, (right | ~scored).all((0, 2)).astype(np.float64))

    def is_right(self, expected: Any, entry: Any) -> bool:
        """Whether an entry of an answer is right; an entry is by default one step.

        Args:
            expected: The entry of the correct answer.
            entry: The entry of the network's answer in its place.
        """
        pairs = zip(expected, entry, strict=True)
        return all(y is not None and abs(x - y) < self.tolerance for x, y in pairs)

    def parse(self, text: str) -> Problem:
        """A problem from text.

        Args:
            text: What a user typed; a `SettingError` says what is accepted.
        """
        match = re.fullmatch(
            r"\s*length (\d{1,9}), key (\d+(?: \d+)*)(?:, sample (\d{1,9}) of (\d{1,9}))?\s*",
            text,
            re.ASCII,
        )
        length, number, count = (int(match[at] or 1) if match else 0 for at in (1, 3, 4))
        if match is None or not length or not 1 <= number <= count:
            raise SettingError("problem", text, "text such as 'length 8, key 0'")
        key = plain_key([int(part) for part in match[2].split()])
        return DrawnSample(length, key, number, count)

    def format_problem(self, problem: Problem) -> str:
        """The text that `parse` turns into this problem.

        Args:
            problem: Has been checked.
        """
        length, key, number, count = problem
        parts = key if isinstance(key, Sequence) else (key,)
        text = f"length {length}, key {' '.join(map(str, parts))}"
        return text if count == 1 else f"{text}, sample {number} of {count}"

    def format_entry(self, entry: Any) -> str:
        """One entry of an answer as text.

        Args:
            entry: A part of what `read` or `solve` returns, by default the numbers of a step.
        """
        return " ".join(map(format_number, entry))

    def format_answer(self, answer: Answer) -> str:
        """An answer as text, with ? for a number that is not finite.

        Args:
            answer: What `read` or `solve` returns for one problem.
        """
        return " | ".join(map(self.format_entry, answer))

    def cell_labels(self, problem: Problem) -> tuple[CellLabels, CellLabels] | None:
        """The symbols of inputs and targets; None to show the numbers themselves.

        Args:
            problem: The problem whose inputs and targets are drawn.

        Returns:
            For inputs and for targets the symbols by channel name and step, from 0.
        """
        return None

    def output_labels(self, outputs: Float[np.ndarray, "time outputs"], length: int) -> CellLabels:
        """The symbols that the outputs for one problem stand for, by channel name and step.

        Args:
            outputs: The network's outputs for the problem.
            length: Its input length.
        """
        return {}

    def perfect_outputs(self, batch: Batch) -> Float[np.ndarray, "time batch outputs"]:
        """Outputs that are right everywhere: the targets, or logits.

        Args:
            batch: The samples.
        """
        targets = as_floats(batch.targets)
        return targets if self.read_as == "squared error" else 8 * targets - 4

    def probabilities(
        self, outputs: Float[np.ndarray, "*axes outputs"]
    ) -> Float[np.ndarray, "*axes outputs"]:
        """Logits as probabilities; other outputs as they are.

        Args:
            outputs: The network's outputs at any steps.
        """
        if self.read_as == "cross-entropy":
            return 1 / (1 + np.exp(-outputs))
        if not self.groups:
            return outputs
        parts = np.split(outputs, np.cumsum(self.groups)[:-1], axis=-1)
        powers = [np.exp(y - y.max(axis=-1, keepdims=True)) for y in parts]
        return np.concatenate([p / p.sum(axis=-1, keepdims=True) for p in powers], axis=-1)

    @property
    def groups(self) -> tuple[int, ...]:
        """The sizes of the groups of output channels that a softmax chooses in; () without one."""
        if isinstance(self.read_as, Softmax):
            return self.read_as.groups
        return (self.output_size,) if self.read_as == "softmax" else ()

    def _check_answers(self, answers: Any, batch_size: int) -> None:
        """Refuse what a user-defined `read` returned if no text can be made of it."""
        if not isinstance(answers, Sequence) or len(answers) != batch_size:
            wanted = f"a list with the answers of all {batch_size} samples"
            raise SettingError(_located(self.read), answers, wanted)
        for answer in answers:
            try:
                self.format_answer(answer)
            except (TypeError, ValueError) as error:
                wanted = "an answer for each sample: a tuple of steps, each a tuple of numbers"
                example = "such as ((0.5, 1.0), (0.0, 1.0)), unless format_answer is defined"
                raise SettingError(_located(self.read), answer, f"{wanted}, {example}") from error

    @cached_property
    def _example(self) -> Batch:
        return self.sample(0, 1, 1)

    def _first_scored_step(self, length: int) -> int:
        return int(np.argmax(self.sample(0, 1, length).mask[:, 0]))


def _checked_sample(sample: Callable[..., Any]) -> Callable[..., Batch]:
    """`sample` with checks of its arguments and results, and one sentence for a failure."""

    @wraps(sample)
    def checked(self: AbstractTask, key: Key, batch_size: int, length: int) -> Batch:
        key = plain_key(key)
        require_integer("batch_size", batch_size, 1)
        require_integer("length", length, 1)
        name = f"sample of the task {getattr(self, 'name', type(self).__name__)}"
        with naming_failures(name):
            made = sample(self, key, batch_size, length)
            if isinstance(made, Batch):
                return made
            if not isinstance(made, tuple) or len(made) != 3:
                kind = f"a tuple of {len(made)}" if isinstance(made, tuple) else type(made).__name__
                raise SettingError(f"{name} must return inputs, targets, mask, not {kind}")
            inputs, targets, mask = map(np.asarray, made)
            _check_arrays(name, batch_size, inputs, targets, mask)
            mask = mask.astype(np.bool_)
            num_steps = len(mask) - np.argmax(mask[::-1], axis=0)
            numbers = range(1, batch_size + 1)
            problems = [DrawnSample(length, key, number, batch_size) for number in numbers]
            arrays = inputs.astype(np.float32), targets.astype(np.float32), mask, num_steps
            return Batch(*arrays, length, tuple(problems))

    return checked


def _check_arrays(name: str, batch_size: int, inputs: Any, targets: Any, mask: Any) -> None:
    steps = len(inputs) if inputs.ndim else 0
    for kind, array in {"inputs": inputs, "targets": targets, "mask": mask}.items():
        needed = (steps or "time", batch_size, "channels")[: 2 if kind == "mask" else 3]
        fits = array.ndim == len(needed) and array.shape[:2] == (steps, batch_size) and array.size
        if not fits or array.dtype.kind not in "biuf":
            shape = f"({', '.join(map(str, needed))})"
            raise SettingError(
                f"{name} returned {array.dtype} of shape {array.shape} as {kind}, "
                f"not numbers of shape {shape}"
            )
    if not mask.any(axis=0).all():
        empty = int(np.argmin(mask.any(axis=0)))
        raise SettingError(f"{name} returned a mask without any step for sample {empty + 1}")


def check_loss(task: AbstractTask | type[AbstractTask]) -> None:
    """Refuse a loss, or a reading of outputs, that does not exist or does not fit the channels."""
    names = one_of(LOSSES)
    if not (task.loss in LOSSES or isinstance(task.loss, Softmax) or callable(task.loss)):
        accepted = f"{names}, Softmax(groups), or a method loss(self, outputs, batch)"
        raise SettingError(f"loss of the task {task.name}", task.loss, accepted)
    if not (task.read_as in LOSSES or isinstance(task.read_as, Softmax)):
        accepted = f"{names} or Softmax(groups)"
        raise SettingError(f"read_as of the task {task.name}", task.read_as, accepted)


def _located(method: Callable[..., Any]) -> str:
    """A method of a user's class with its file and line."""
    code = inspect.unwrap(method).__code__
    return f"what {method.__qualname__} returns ({code.co_filename}, line {code.co_firstlineno})"


def plain_key(key: Key) -> Key:
    """A key as plain integers; one integer stands for a list of one."""
    parts = key if isinstance(key, Sequence) and not isinstance(key, str) else (key,)
    integers = all(isinstance(part, Integral) and not isinstance(part, bool) for part in parts)
    if not parts or not integers or min(parts) < 0:
        raise SettingError("key", key, "an integer of at least 0, or several of them")
    numbers = tuple(map(int, parts))
    return numbers[0] if len(numbers) == 1 else numbers


def generator_of(key: Key) -> np.random.Generator:
    """The random generator of a key.

    The number of parts goes first, as NumPy does not distinguish (5,) from (5, 0).
    """
    parts = key if isinstance(key, Sequence) else (key,)
    return np.random.default_rng((len(parts), *parts))


def _finite_or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def as_floats(outputs: ArrayLike) -> Float[np.ndarray, "..."]:
    """Outputs in double precision, so that scaling adds no error before rounding."""
    values = np.asarray(outputs)
    if values.dtype.kind not in "fiu":
        raise SettingError("type of outputs", str(values.dtype), "real numbers")
    return values.astype(np.float64)
