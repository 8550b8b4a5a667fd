"""Randomness: every batch has its own key, so that no generator state needs to be saved.

Keys of training are (seed, stream, iteration); those of evaluation and calibration have four parts,
so that no two are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax

from constrained_dnc.config import Config
from constrained_dnc.shapes import Array
from constrained_dnc.tasks.task import AbstractTask, Batch, generator_of

LENGTHS, SEEN, UNSEEN, ENTROPY, EVALUATION, CALIBRATION = range(6)
ENTROPY_BATCH_SIZE = 8


@dataclass(frozen=True)
class IterationBatches:
    """The batches of one iteration."""

    iteration: int  # counts from 1
    batch: Batch
    unseen: Batch | None  # at iterations that measure


def sample_iteration(task: AbstractTask, config: Config, iteration: int) -> IterationBatches:
    """The training batch of an iteration and, if it measures, one of the unseen length."""
    training = config.training
    unseen = None
    if iteration % training.measure_every == 0:
        key = (config.seed, UNSEEN, iteration)
        unseen = task.sample(key, training.batch_size, training.unseen_length)
    return IterationBatches(iteration, training_batch(task, config, iteration), unseen)


def training_batch(task: AbstractTask, config: Config, iteration: int) -> Batch:
    """The batch of an update, of a random length."""
    training = config.training
    lengths = generator_of((config.seed, LENGTHS, iteration))
    length = int(lengths.integers(training.min_length, training.max_length + 1))
    return task.sample((config.seed, SEEN, iteration), training.batch_size, length)


def constraint_key(config: Config, iteration: int) -> Array:
    """The random key of an update, for constraints such as noise."""
    return jax.random.fold_in(jax.random.key(config.seed), iteration)


def entropy_batch(task: AbstractTask, config: Config, iteration: int) -> Batch:
    """A small batch for the entropy of read and write weights."""
    key = (config.seed, ENTROPY, iteration)
    return task.sample(key, ENTROPY_BATCH_SIZE, config.training.max_length)


def evaluation_batch(task: AbstractTask, config: Config, length: int, index: int) -> Batch:
    """A batch of one length; it depends on the evaluation seed, not on the run's."""
    evaluation = config.evaluation
    key = (evaluation.seed, EVALUATION, length, index)
    return task.sample(key, evaluation.batch_size, length)
