"""The batches of training and evaluation: their lengths, and a key for each of them.

No generator state needs to be saved. Keys of training are (seed, stream, iteration); those of
evaluation and calibration have four parts, so that no two are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, TypeAlias

import jax

from constrained_dnc.config import (
    NO_CURRICULUM,
    Config,
    EvaluationConfig,
    TrainingConfig,
    parse_curriculum,
)
from constrained_dnc.errors import SettingError
from constrained_dnc.parts import kind_of, parse_part
from constrained_dnc.plugins import is_import_path, load_function, naming_failures
from constrained_dnc.shapes import Array
from constrained_dnc.tasks.task import AbstractTask, Batch, generator_of

LENGTHS, SEEN, UNSEEN, ENTROPY, EVALUATION, CALIBRATION = range(6)
ENTROPY_BATCH_SIZE = 8
CURRICULUM = "training.curriculum"
Curriculum: TypeAlias = Callable[[int], tuple[int, int]]
"""The shortest and the longest input of an iteration; iterations count from 1."""


def make_curriculum(config: TrainingConfig) -> Curriculum:
    """The training lengths of the config: stages, a user-defined function, or one fixed range.

    Args:
        config: Its `curriculum` has the stages or names the function, and no length may be outside
            `min_length` to `max_length`.

    >>> lengths = make_curriculum(TrainingConfig(min_length=1, curriculum="0:1..5,100:2..8"))
    >>> lengths(1), lengths(100), lengths(101)
    ((1, 5), (1, 5), (2, 8))
    """
    shortest, longest, text = config.min_length, config.max_length, config.curriculum
    if text == NO_CURRICULUM:
        return lambda iteration: (shortest, longest)
    if is_import_path(kind_of(text)):
        part = parse_part(text, CURRICULUM)
        function: Callable[[int], Any] = load_function(CURRICULUM, part.kind)
        function = partial(function, **dict(part.settings))
    else:
        stages = parse_curriculum(text, shortest, longest)

        def function(iterations: int) -> Any:
            return [stage[1:] for stage in stages if stage[0] <= iterations][-1]

    def lengths(iteration: int) -> tuple[int, int]:
        with naming_failures(f"{CURRICULUM} {text}"):
            value = function(iteration - 1)
        match value:
            case (Integral(), Integral()) if shortest <= value[0] <= value[1] <= longest:
                return int(value[0]), int(value[1])
        raise SettingError(
            f"{CURRICULUM} {text} must return the shortest and the longest length, "
            f"from {shortest} to {longest}, not {value!r} at iteration {iteration - 1}"
        )

    return lengths


@dataclass(frozen=True)
class IterationBatches:
    """The batches of one iteration."""

    iteration: int  # counts from 1
    batch: Batch
    unseen: Batch | None  # at iterations that measure


def sample_iteration(
    task: AbstractTask, config: Config, iteration: int, lengths: Curriculum | None = None
) -> IterationBatches:
    """The training batch of an iteration and, if it measures, one of the unseen length."""
    training = config.training
    unseen = None
    if iteration % training.measure_every == 0:
        key = (config.seed, UNSEEN, iteration)
        unseen = task.sample(key, training.batch_size, training.unseen_length)
    batch = training_batch(task, config, iteration, lengths)
    return IterationBatches(iteration, batch, unseen)


def training_batch(
    task: AbstractTask, config: Config, iteration: int, lengths: Curriculum | None = None
) -> Batch:
    """The batch of an update, all of one random length.

    Args:
        task: Draws the samples.
        config: Its seed fixes the length and the samples of every iteration.
        iteration: The update, from 1.
        lengths: The curriculum of the config; by default it is made for this batch alone.
    """
    training = config.training
    shortest, longest = (lengths or make_curriculum(training))(iteration)
    generator = generator_of((config.seed, LENGTHS, iteration))
    length = int(generator.integers(shortest, longest + 1))
    return task.sample((config.seed, SEEN, iteration), training.batch_size, length)


def random_key(seed: int) -> Array:
    """JAX's key of a seed, of which it would ignore all but the low 32 bits."""
    high, low = divmod(seed, 2**32)
    key = jax.random.key(low)
    return jax.random.fold_in(key, high) if high else key


def constraint_key(config: Config, iteration: int) -> Array:
    """The random key of an update, for constraints such as noise; iterations count from 1."""
    return jax.random.fold_in(random_key(config.seed), iteration)


def entropy_batch(task: AbstractTask, config: Config, iteration: int) -> Batch:
    """A small batch for the entropy of read and write weights."""
    key = (config.seed, ENTROPY, iteration)
    return task.sample(key, ENTROPY_BATCH_SIZE, config.training.max_length)


def evaluation_batch(
    task: AbstractTask, settings: EvaluationConfig, length: int, index: int
) -> Batch:
    """A batch for evaluation; it depends on the evaluation seed, not on the run or the model.

    Args:
        task: Draws the samples.
        settings: Its seed and batch size.
        length: The input length of all samples.
        index: Counts the batches of this length from 0.
    """
    return task.sample((settings.seed, EVALUATION, length, index), settings.batch_size, length)
