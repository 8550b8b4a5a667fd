"""Digital inference: a trained model with hard writes and states that its cell state snaps to.

Which parts of a model can be made digital is decided at training lengths alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.evaluation.states import (
    SCORE_BATCHES,
    calibration_batches,
    centroids,
    spread,
    training_lengths_of,
    training_states,
    unroll_side_by_side,
)
from constrained_dnc.files import corruption_named, read_tensors, write_tensors
from constrained_dnc.model.constraints import Snapping
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import DNCMemory
from constrained_dnc.model.leaves import named_leaves, with_fields
from constrained_dnc.model.losses import task_loss
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Batch
from constrained_dnc.training.folder import DIGITAL
from constrained_dnc.training.parameters import parameters_of
from constrained_dnc.training.run import Run, TrainedModel


@dataclass(frozen=True)
class Measured:
    """Score and loss of a model with some digital parts, at training lengths."""

    writes: str
    states: int | None  # None: the cell state does not snap
    score: float
    loss: float


@dataclass(frozen=True)
class Digital:
    """The digital parts of a model, and the measurements by which they were chosen."""

    writes: str
    """soft, one-hot or one-hot-allocation."""
    states: Float[np.ndarray, "count cell"] | None
    """What the carried cell state snaps to; None if it does not."""
    state_count: int | None = None
    """k*, see `state_count`."""
    tried: tuple[Measured, ...] = ()
    """All measurements, the network's first."""

    def apply(self, model: DNC) -> DNC:
        """The model with these parts.

        Args:
            model: The one for which they were chosen.
        """
        digital = with_writes(model, self.writes)
        if self.states is None:
            return digital
        snapping = Snapping(jnp.asarray(self.states))
        return with_fields(digital, constraints=(*model.constraints, snapping))


def with_writes(model: DNC, writes: str) -> DNC:
    """The model with soft or hard writes; only a DNC's memory has hard ones."""
    if not isinstance(model.memory, DNCMemory):
        return model
    return with_fields(model, memory=with_fields(model.memory, writes=writes))


KEPT = 0.99


class Candidates:
    """A model, samples of training lengths, and what has been measured on them."""

    def __init__(
        self,
        model: DNC,
        task: AbstractTask | str,
        lengths: Iterable[int] | None = None,
        seed: int = 0,
        threads: int | None = None,
    ):
        self.model = model
        self.task = get_task(task) if isinstance(task, str) else task
        self.lengths = training_lengths_of(model, lengths)
        self.seed, self.threads = seed, threads
        self.batches = calibration_batches(self.task, self.lengths, SCORE_BATCHES, seed)
        self.measured: dict[tuple[str, int | None], Measured] = {}
        self._states: dict[str, Float[np.ndarray, "states cell"]] = {}
        self._centroids: dict[tuple[str, int | None], Float[np.ndarray, "count cell"]] = {}
        self.network = self.measure("soft", None)

    def states(self, writes: str = "soft") -> Float[np.ndarray, "states cell"]:
        """The cell states that the model visits with these writes; computed once."""
        if writes not in self._states:
            self._states[writes] = training_states(
                with_writes(self.model, writes),
                self.task,
                self.lengths,
                seed=self.seed,
                threads=self.threads,
            )
        return self._states[writes]

    def can_snap(self, writes: str = "soft") -> bool:
        """Whether the model has a cell state that can be replaced and is always finite."""
        controller = self.model.controller
        state = controller.initial_state()
        try:
            controller.with_cell_state(state, controller.cell_state(state))
        except SettingError:  # none, or a user-defined controller does not say how
            return False
        return bool(np.isfinite(self.states(writes)).all())

    @cached_property
    def gain(self) -> float:
        """How far the network's loss is below the loss of an answer that ignores the input."""
        losses = [_loss(self.task, batch, mean_answer(self.task, batch)) for batch in self.batches]
        return float(np.mean(losses)) - self.network.loss

    def centroids(self, writes: str, count: int | None) -> Float[np.ndarray, "count cell"]:
        """Centroids of the states visited with these writes; computed once."""
        if (writes, count) not in self._centroids:
            self._centroids[writes, count] = centroids(self.states(writes), count, self.seed)
        return self._centroids[writes, count]

    def measure(self, writes: str, states: Float[np.ndarray, "count cell"] | None) -> Measured:
        """Score and loss of the model with these parts; measured once."""
        count = None if states is None else len(states)
        if (writes, count) not in self.measured:
            runs = self._run(Digital(writes, states).apply(self.model), self.batches)
            loss = float(np.mean([_loss(self.task, *run) for run in runs]))
            self.measured[writes, count] = Measured(writes, count, self._score(runs), loss)
        return self.measured[writes, count]

    def keeps_all_lengths(self, digital: Digital) -> bool:
        """Whether 99 % of the network's score is kept over the whole range of lengths."""
        lengths = range(min(self.lengths), max(self.lengths) + 1)
        batches = calibration_batches(self.task, lengths, SCORE_BATCHES, self.seed)
        network, changed = (
            self._score(self._run(model, batches))
            for model in (self.model, digital.apply(self.model))
        )
        return changed >= KEPT * network

    def _run(self, model: DNC, batches: list[Batch]) -> list[tuple[Batch, np.ndarray]]:
        """Every batch with the outputs of a model."""
        runs = unroll_side_by_side(model, self.task, batches, self.threads)
        return [(batch, outputs) for batch, (outputs, _) in zip(batches, runs, strict=True)]

    def _score(self, runs: list[tuple[Batch, np.ndarray]]) -> float:
        return float(np.mean([self.task.score(*run).score.mean() for run in runs]))

    def keeps_score(self, measured: Measured) -> bool:
        """Whether at least 99 % of the network's score is kept."""
        return measured.score >= KEPT * self.network.score

    def keeps(self, measured: Measured, cost: float, before: Measured | None = None) -> bool:
        """Whether the score is kept and the loss rises by at most the fraction `cost` of the gain.

        The rise is relative to `before`, by default the network.
        """
        more = measured.loss - (before or self.network).loss
        return self.keeps_score(measured) and more <= cost * self.gain


def mean_answer(task: AbstractTask, batch: Batch) -> Float[np.ndarray, "time batch outputs"]:
    """The mean target at every step: the answer with the least loss that ignores the input."""
    mean = batch.targets.mean(axis=1, keepdims=True)
    if task.read_as != "squared error":  # outputs are logits
        mean = np.clip(mean, 0.001, 0.999)
        mean = np.log(mean) if task.groups else np.log(mean / (1 - mean))
    return np.broadcast_to(mean, batch.targets.shape)


def _loss(
    task: AbstractTask, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]
) -> float:
    return float(task_loss(outputs, batch, task.loss).mean())


COUNTS = tuple(2**power for power in range(13))


def state_count(
    model: DNC,
    task: AbstractTask | str,
    *,
    lengths: Iterable[int] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> int | None:
    """k*: the fewest states to which the cell state can snap so that 99 % of the score is kept.

    Args:
        model: A trained model.
        task: The task it was trained on, or its name.
        lengths: Training lengths, on which states are clustered and scored; by default three of
            those that the model was trained on. A model of a run knows them.
        seed: Fixes the samples; neither training nor evaluation uses them.
        threads: Threads of the kernel, by default one per core.

    Returns:
        A power of two up to 4096; None if these are too few, or if the model answers no better
        than one that ignores its input; 1 for a controller without a state.
    """
    return count_states(Candidates(model, task, lengths, seed, threads))


def count_states(candidates: Candidates) -> int | None:
    """k* of a model, see `state_count`."""
    if not candidates.gain > 0:  # also NaN
        return None
    if not candidates.states().shape[1]:
        return 1

    def is_kept(count: int) -> bool:
        states = candidates.centroids("soft", count)
        return candidates.keeps_score(candidates.measure("soft", states))

    if not candidates.can_snap() or not is_kept(COUNTS[-1]):  # then fewer will not do either
        return None
    return len(candidates.centroids("soft", next(filter(is_kept, COUNTS))))


HARD_WRITES = ("one-hot", "one-hot-allocation")
STATE_COUNTS = (*(2**power for power in range(3, 13)), None)
"""The numbers of centroids, K, that are tried; None is all distinct states."""
COST_OF_WRITES, COST_OF_STATES = 0.01, 0.001
"""The largest fraction of the gain that may be lost."""


def calibrate(
    model: DNC,
    task: AbstractTask | str,
    *,
    lengths: Iterable[int] | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Digital:
    """Choose the digital parts of a model on samples of training lengths.

    The gain of a network is how far its loss is below the loss of an answer that ignores the
    input. Writes are the hardest of one-hot, one-hot allocation and soft that keep 99 % of the
    score and cost at most 1 % of the gain. With these writes on, the states that the model visits
    are clustered: it snaps to the fewest of 8, 16, ... 4096 centroids, or to all states, that keep
    99 % of the score and cost at most a further 0.1 % of the gain; to none if even all cost more.
    Parts that lose more than 1 % of the score over all lengths from the shortest to the longest are
    left out again.

    Args:
        model: A trained model.
        task: The task it was trained on, or its name.
        lengths: Training lengths, as others would make the choice unfair; by default three of those
            that the model was trained on. A model of a run knows them.
        seed: Fixes the samples; neither training nor evaluation uses them.
        threads: Threads of the kernel, by default one per core.
    """
    candidates = Candidates(model, task, lengths, seed, threads)
    writes = _hardest_writes(candidates)
    states = _fewest_states(candidates, writes)
    if not candidates.keeps_all_lengths(Digital(writes, states)):
        states = None
        if not candidates.keeps_all_lengths(Digital(writes, states)):
            writes = "soft"
    return Digital(writes, states, count_states(candidates), tuple(candidates.measured.values()))


def _hardest_writes(candidates: Candidates) -> str:
    if isinstance(candidates.model.memory, DNCMemory):
        for writes in HARD_WRITES:
            if candidates.keeps(candidates.measure(writes, None), COST_OF_WRITES):
                return writes
    return "soft"


def _fewest_states(candidates: Candidates, writes: str) -> Float[np.ndarray, "count cell"] | None:
    if not candidates.can_snap(writes):
        return None
    before = candidates.measure(writes, None)

    def is_kept(count: int | None) -> bool:
        measured = candidates.measure(writes, candidates.centroids(writes, count))
        return candidates.keeps(measured, COST_OF_STATES, before)

    if not is_kept(STATE_COUNTS[-2]) and not is_kept(None):  # then fewer will not do either
        return None
    return candidates.centroids(writes, next(filter(is_kept, STATE_COUNTS)))


def digitise(model: DNC, task: AbstractTask | str, *, lengths: Iterable[int] | None = None) -> DNC:
    """The model with hard writes and snapped states, as far as `calibrate` chooses them.

    Args:
        model: A trained model.
        task: The task it was trained on, or its name.
        lengths: Training lengths, see `calibrate`.
    """
    return calibrate(model, task, lengths=lengths).apply(model)


def digital_of(run: Run, selected: TrainedModel, threads: int | None = None) -> Digital:
    """The stored digital parts of selected parameters, or new ones, which are stored."""
    stored = stored_digital(run, selected)
    if stored is not None:
        return stored
    training = run.config.training
    lengths = spread(training.min_length, training.max_length)
    digital = calibrate(selected.model, run.task, lengths=lengths, threads=threads)
    if not run.is_pretrained:
        metadata = {
            "parameters": fingerprint(selected.model),
            "writes": digital.writes,
            "state_count": digital.state_count,
            # losses as text: JSON has no NaN
            "tried": [
                asdict(measured) | {"loss": str(measured.loss)} for measured in digital.tried
            ],
        }
        states = {} if digital.states is None else {"states": digital.states}
        with suppress(RunError):  # the disk may be full or read-only
            write_tensors(run.folder / DIGITAL[selected.rule], states, metadata)
    return digital


def stored_digital(run: Run, selected: TrainedModel) -> Digital | None:
    """The digital parts in a run's folder; None if they are absent, corrupt or out of date."""
    path = run.folder / DIGITAL[selected.rule]
    with suppress(RunError):
        tensors, metadata = read_tensors(path)
        with corruption_named(path):
            tried = tuple(
                Measured(**entry | {"loss": float(entry["loss"])}) for entry in metadata["tried"]
            )
            if metadata["parameters"] == fingerprint(selected.model):
                states, count = tensors.get("states"), metadata["state_count"]
                return Digital(metadata["writes"], states, count, tried)
    return None


def fingerprint(model: DNC) -> str:
    """A checksum of the parameters of a model."""
    digest = hashlib.sha256()
    for name, leaf in named_leaves(parameters_of(model)):  # not functions, whose bytes vary
        digest.update(name.encode() + np.asarray(leaf).tobytes())
    return digest.hexdigest()
