"""Which parts of a model can be made digital, decided from samples of training lengths alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Float32

from constrained_dnc.digital.states import (
    LENGTHS,
    SCORE_BATCHES,
    calibration_batches,
    centroids,
    training_states,
    unroll_side_by_side,
)
from constrained_dnc.model.constraints import Snapping
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.losses import task_loss
from constrained_dnc.model.memory import AbstractMemory, DNCMemory
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Batch

HARDEST_FIRST = ("one-hot", "one-hot-allocation", "soft")
STATE_COUNTS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, None)
"""How many centroids are tried; None is all distinct states."""
KEPT = 0.99


@dataclass(frozen=True)
class Measured:
    """How well a model with certain parts does at training lengths."""

    writes: str
    states: int | None  # None: not snapped
    score: float
    loss: float


@dataclass(frozen=True)
class Digital:
    """The digital parts of a model, and what they were chosen from."""

    writes: str
    """One of model.memory.WRITES."""
    states: Float[np.ndarray, "count cell"] | None
    """What carried cell states snap to; None if they do not."""
    tried: tuple[Measured, ...] = ()
    """The network itself, then everything that was tried, the choice last."""

    @property
    def network(self) -> Measured:
        return self.tried[0]

    def apply(self, model: DNC) -> DNC:
        """The model with these parts."""
        snapping = () if self.states is None else (Snapping(jnp.asarray(self.states)),)
        digital = with_writes(model, self.writes)
        return eqx.tree_at(
            lambda dnc: dnc.constraints,
            digital,
            (*model.constraints, *snapping),
            is_leaf=lambda node: isinstance(node, tuple),
        )


class Calibration:
    """The samples and states of one model from which parts are chosen."""

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
        self.tried: list[Measured] = []

    @cached_property
    def network(self) -> Measured:
        """The model as it is."""
        return self.measure("soft", None)

    @cached_property
    def states(self) -> Float32[np.ndarray, "states cell"]:
        """The states that the model visits with soft writes."""
        return training_states(
            self.model, self.task, self.lengths, seed=self.seed, threads=self.threads
        )

    @cached_property
    def can_snap(self) -> bool:
        return bool(self.states.shape[1]) and bool(np.isfinite(self.states).all())

    @cached_property
    def loss_to_lose(self) -> float:
        """How much lower the loss is than that of the mean target, which ignores the input."""
        constant = [
            _loss(self.task, batch, mean_answer(self.task, batch)) for batch in self.batches
        ]
        return float(np.mean(constant)) - self.network.loss

    def centroids(self, count: int | None) -> Float[np.ndarray, "count cell"]:
        return centroids(self.states, count, self.seed)

    def measure(self, writes: str, states: Float[np.ndarray, "count cell"] | None) -> Measured:
        """Score and loss of the model with these parts."""
        model = Digital(writes, states).apply(self.model)
        runs = unroll_side_by_side(model, self.task, self.batches, self.threads)
        pairs = [(batch, outputs) for batch, (outputs, _) in zip(self.batches, runs, strict=True)]
        score = np.mean([self.task.score(*pair).score.mean() for pair in pairs])
        loss = np.mean([_loss(self.task, *pair) for pair in pairs])
        count = None if states is None else len(states)
        self.tried.append(Measured(writes, count, float(score), float(loss)))
        return self.tried[-1]

    def keeps_score(self, measured: Measured) -> bool:
        return measured.score >= KEPT * self.network.score

    def keeps(self, measured: Measured) -> bool:
        """Whether score and loss are as good as the network's, but for 1 %."""
        allowed = self.network.loss + (1 - KEPT) * max(0.0, self.loss_to_lose)
        return self.keeps_score(measured) and measured.loss <= allowed


def calibrate(
    model: DNC,
    task: AbstractTask | str,
    *,
    lengths: Iterable[int] = LENGTHS,
    seed: int = 0,
    threads: int | None = None,
) -> Digital:
    """Choose the digital parts of a model on samples of training lengths."""
    calibration = Calibration(model, task, lengths, seed, threads)
    return choose_parts(calibration)


def choose_parts(calibration: Calibration) -> Digital:
    """The hardest writes, then the fewest states with these, that keep score and loss."""
    keeps, measure, network = calibration.keeps, calibration.measure, calibration.network
    hard = HARDEST_FIRST if isinstance(calibration.model.memory, DNCMemory) else ()
    writes = next((each for each in hard[:-1] if keeps(measure(each, None))), "soft")
    counts = STATE_COUNTS if calibration.can_snap else ()
    candidates = (calibration.centroids(count) for count in counts)
    states = next((each for each in candidates if keeps(measure(writes, each))), None)
    return Digital(writes, states, (network, *calibration.tried[1:]))


def digitise(model: DNC, task: AbstractTask | str, *, lengths: Iterable[int] = LENGTHS) -> DNC:
    """The model with hard writes and snapped states, as far as `calibrate` finds them harmless."""
    return calibrate(model, task, lengths=lengths).apply(model)


def mean_answer(task: AbstractTask, batch: Batch) -> Float[np.ndarray, "time batch outputs"]:
    """The best answer, by the loss, that knows the length but not the input."""
    mean = batch.targets.mean(axis=1, keepdims=True)
    if task.loss == "cross-entropy":
        mean = np.clip(mean, 0.001, 0.999)
        mean = np.log(mean / (1 - mean))
    return np.broadcast_to(mean, batch.targets.shape)


def _loss(
    task: AbstractTask, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]
) -> float:
    return float(task_loss(outputs, batch.targets, batch.mask, task.loss).mean())


def with_writes(model: DNC, writes: str) -> DNC:
    """The model with a memory that writes softly or hard."""
    if writes == "soft" and not isinstance(model.memory, DNCMemory):
        return model
    assert isinstance(model.memory, DNCMemory)
    return eqx.tree_at(
        lambda dnc: dnc.memory,
        model,
        replace(model.memory, writes=writes),
        is_leaf=lambda node: isinstance(node, AbstractMemory),
    )
