"""Models with digital parts, compared with the network at training lengths."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from jaxtyping import Float

from constrained_dnc.digital.parts import Digital, Measured, with_writes
from constrained_dnc.digital.states import (
    LENGTHS,
    SCORE_BATCHES,
    calibration_batches,
    centroids,
    training_states,
    unroll_side_by_side,
)
from constrained_dnc.errors import SettingError
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.losses import task_loss
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Batch

KEPT = 0.99


class Candidates:
    """A model, samples of training lengths, and what has been measured on them."""

    def __init__(
        self,
        model: DNC,
        task: AbstractTask | str,
        lengths: Iterable[int] = LENGTHS,
        seed: int = 0,
        threads: int | None = None,
    ):
        self.model = model
        self.task = get_task(task) if isinstance(task, str) else task
        self.lengths, self.seed, self.threads = tuple(lengths), seed, threads
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
    if task.loss == "cross-entropy":  # outputs are logits
        mean = np.clip(mean, 0.001, 0.999)
        mean = np.log(mean / (1 - mean))
    return np.broadcast_to(mean, batch.targets.shape)


def _loss(
    task: AbstractTask, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]
) -> float:
    return float(task_loss(outputs, batch.targets, batch.mask, task.loss).mean())
