"""The cell states that a model carries: at training lengths, a few for all of them, and drift.

A state drifts if at longer lengths it leaves the states of training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import sklearn.cluster
import sklearn.metrics
from jaxtyping import Bool, Float, Float32
from threadpoolctl import threadpool_limits

from constrained_dnc.errors import SettingError
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


def training_lengths_of(model: DNC, lengths: Iterable[int] | None = None) -> tuple[int, ...]:
    """The given training lengths or, by default, three of those that the model was trained on."""
    if lengths is not None:
        return tuple(lengths)
    if model.training_lengths is None:
        hint = "a model of a run knows them"
        raise SettingError(f"training lengths are needed, such as lengths=(5, 10, 15); {hint}")
    return spread(*model.training_lengths)


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
    lengths: Iterable[int] | None = None,
    *,
    seed: int = 0,
    threads: int | None = None,
) -> Float32[np.ndarray, "states cell"]:
    """The cell states that a model carries on samples of training lengths, step by step."""
    lengths = training_lengths_of(model, lengths)
    batches = calibration_batches(task, lengths, STATE_BATCHES, seed)
    visited = unroll_side_by_side(model, task, batches, threads)
    return np.concatenate(
        [states[_is_step(batch)] for batch, (_, states) in zip(batches, visited, strict=True)]
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


def decoding_steps(batch: Batch) -> Bool[np.ndarray, "time batch"]:
    """The steps at which each sample gives its answer: from the first in the loss to its last."""
    step = np.arange(len(batch.mask))[:, np.newaxis]
    return (step >= batch.mask.argmax(axis=0)) & (step < batch.num_steps)


def states_by_phase(
    model: DNC, task: AbstractTask, batches: Sequence[Batch], threads: int | None = None
) -> tuple[Float[np.ndarray, "encoded cell"], Float[np.ndarray, "answered cell"]]:
    """The carried states of all samples: those while encoding, and those while answering."""
    phases: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    runs = unroll_side_by_side(model, task, batches, threads)
    for batch, (_, states) in zip(batches, runs, strict=True):
        encoded = states[: task.encoding_steps(batch.length)]
        phases[0].append(encoded.reshape(-1, states.shape[-1]))
        phases[1].append(states[decoding_steps(batch)])
    return np.concatenate(phases[0]), np.concatenate(phases[1])


@dataclass(frozen=True)
class Drift:
    """How far the carried states of a model are from those at training lengths."""

    lengths: tuple[int, ...]
    distance: Float[np.ndarray, "lengths 2"]
    """The median distance to the nearest state of training, while encoding and answering."""
    spread: Float[np.ndarray, "2"]
    """The root mean square distance of the states of training from their mean."""

    @property
    def relative(self) -> Float[np.ndarray, "lengths 2"]:
        """Distance over spread: 0 for states of training, infinite if these have no spread."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.distance == 0, 0.0, self.distance / self.spread)


def drift(
    model: DNC,
    task: AbstractTask,
    training_lengths: tuple[int, int],
    lengths: Sequence[int],
    *,
    seed: int = 0,
    threads: int | None = None,
) -> Drift:
    """How far a model's carried states leave those of training at each of some lengths.

    States are compared with the states of the same phase, encoding or answering, at the shortest,
    the middle and the longest training length.

    Args:
        model: A controller with a cell state, and the memory it is to run with.
        task: The task it was trained on.
        training_lengths: The shortest and the longest length in training.
        lengths: The lengths to measure, with 64 samples each.
        seed: Fixes the samples; neither training nor evaluation uses them.
        threads: Threads of the kernel, by default one per core.
    """

    def visited(lengths: Sequence[int], indices: Sequence[int]) -> Sequence[np.ndarray]:
        batches = calibration_batches(task, lengths, indices, seed)
        return states_by_phase(model, task, batches, threads)

    training = visited(spread(*training_lengths), STATE_BATCHES)
    distances = []
    for length in lengths:
        pairs = zip(visited([length], SCORE_BATCHES[:1]), training, strict=True)
        distances.append([np.median(_distance_to_nearest(*pair)) for pair in pairs])
    spreads = [np.sqrt(states.astype(np.float64).var(axis=0).sum()) for states in training]
    return Drift(tuple(lengths), np.reshape(distances, (-1, 2)), np.array(spreads))


def _distance_to_nearest(
    states: Float[np.ndarray, "states cell"], reference: Float[np.ndarray, "others cell"]
) -> Float[np.ndarray, "states"]:
    """The Euclidean distance of every state to the nearest of others; NaN after divergence."""
    states, reference = states.astype(np.float64), reference.astype(np.float64)
    if not (np.isfinite(states).all() and np.isfinite(reference).all()):
        return np.full(len(states), np.nan)
    with threadpool_limits(1):
        nearest = sklearn.metrics.pairwise_distances_argmin(states, reference)
    return np.linalg.norm(states - reference[nearest], axis=1)  # exactly 0 for equal states


def distinct_states(
    model: DNC,
    task: AbstractTask,
    lengths: Sequence[int],
    *,
    seed: int = 0,
    threads: int | None = None,
) -> int:
    """The number of different states that a model carries on 64 samples of every length.

    Under rounding it is small if the model is a small machine. Without rounding hardly two states
    are equal.

    Args:
        model: A model, and the memory it is to run with.
        task: The task it was trained on.
        lengths: The lengths of the samples.
        seed: Fixes the samples; neither training nor evaluation uses them.
        threads: Threads of the kernel, by default one per core.
    """
    visited = set()
    for length in lengths:
        (batch,) = calibration_batches(task, [length], [0], seed)
        ((_, states),) = unroll_side_by_side(model, task, [batch], threads)
        visited |= {state.tobytes() for state in states[_is_step(batch)]}
    return len(visited)


def _is_step(batch: Batch) -> Bool[np.ndarray, "time batch"]:
    """Which steps belong to a sample; the others are padding."""
    return np.arange(len(batch.inputs))[:, None] < batch.num_steps
