"""The cell states that a model carries at training lengths, and a few that represent them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import sklearn.cluster
from jaxtyping import Float, Float32
from threadpoolctl import threadpool_limits

from constrained_dnc.config import TRAINING_LENGTHS
from constrained_dnc.model.backend import choose_backend
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.task import AbstractTask, Batch
from constrained_dnc.training.batches import CALIBRATION

BATCH_SIZE = 64
STATE_BATCHES, SCORE_BATCHES = range(4), range(4, 6)
"""The batches of a length whose states are clustered, and those that are scored."""

SPREAD_START = 256
"""The most centroids that k-means++ initialises: for more, it takes longer than the clustering."""


def spread(shortest: int, longest: int) -> tuple[int, ...]:
    """The shortest, the middle and the longest length.

    >>> spread(5, 15), spread(1, 2)
    ((5, 10, 15), (1, 2))
    """
    return tuple(sorted({shortest, (shortest + longest) // 2, longest}))


LENGTHS = spread(*TRAINING_LENGTHS)
"""Lengths at which a model without a run is calibrated."""


def calibration_batches(
    task: AbstractTask, lengths: Iterable[int], indices: Sequence[int], seed: int = 0
) -> list[Batch]:
    """Batches of every length; neither training nor evaluation uses them."""
    return [
        task.sample((seed, CALIBRATION, length, index), BATCH_SIZE, length)
        for length in lengths
        for index in indices
    ]


def side_by_side(batches: Sequence[Batch]) -> Float32[np.ndarray, "time batch inputs"]:
    """The inputs of batches in one array, with blank steps after the shorter ones."""
    steps = max(len(batch.inputs) for batch in batches)
    blank = [((0, steps - len(batch.inputs)), (0, 0), (0, 0)) for batch in batches]
    inputs = [np.pad(batch.inputs, pad) for batch, pad in zip(batches, blank, strict=True)]
    return np.concatenate(inputs, axis=1)


def unroll_side_by_side(
    model: DNC, task: AbstractTask, batches: Sequence[Batch], threads: int | None = None
) -> list[tuple[Float[np.ndarray, "time batch outputs"], Float[np.ndarray, "time batch cell"]]]:
    """Outputs and cell states of several batches, computed in one forward pass."""
    backend = choose_backend("auto", model, task.loss, threads=threads)
    unrolled = backend.forward(model, side_by_side(batches), keep_state=False)
    ends = np.cumsum([batch.inputs.shape[1] for batch in batches])[:-1]
    parts = zip(
        batches,
        np.split(np.asarray(unrolled.outputs), ends, axis=1),
        np.split(np.asarray(unrolled.cell_states), ends, axis=1),
        strict=True,
    )
    return [
        (outputs[: len(batch.inputs)], states[: len(batch.inputs)])
        for batch, outputs, states in parts
    ]


def training_states(
    model: DNC,
    task: AbstractTask,
    lengths: Iterable[int] = LENGTHS,
    *,
    seed: int = 0,
    threads: int | None = None,
) -> Float32[np.ndarray, "states cell"]:
    """The cell states that a model carries on samples of training lengths, step by step."""
    batches = calibration_batches(task, lengths, STATE_BATCHES, seed)
    visited = unroll_side_by_side(model, task, batches, threads)
    return np.concatenate(
        [
            states[np.arange(len(states))[:, None] < batch.num_steps]
            for batch, (_, states) in zip(batches, visited, strict=True)
        ]
    )


def centroids(
    states: Float[np.ndarray, "states cell"], count: int | None = None, seed: int = 0
) -> Float[np.ndarray, "count cell"]:
    """The k-means centroids of states; all distinct states if `count` is None or not smaller."""
    distinct = np.unique(states, axis=0) if states.shape[1] else states[:1]
    if count is None or count >= len(distinct):
        return distinct
    init = "k-means++" if count <= SPREAD_START else "random"
    means = sklearn.cluster.MiniBatchKMeans(
        count, init=init, n_init=1, random_state=seed, batch_size=2048
    )
    with threadpool_limits(1):  # the order of sums, and so the last bits, depend on the threads
        return means.fit(states).cluster_centers_.astype(states.dtype)
