"""Which parts of a model can be made digital, decided at training lengths alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from constrained_dnc.digital.candidates import Candidates
from constrained_dnc.digital.parts import Digital
from constrained_dnc.digital.state_count import count_states
from constrained_dnc.digital.states import LENGTHS
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import DNCMemory
from constrained_dnc.tasks.task import AbstractTask

HARD_WRITES = ("one-hot", "one-hot-allocation")
STATE_COUNTS = (*(2**power for power in range(3, 13)), None)
"""The numbers of centroids, K, that are tried; None is all distinct states."""
COST_OF_WRITES, COST_OF_STATES = 0.01, 0.001
"""The largest fraction of the gain that may be lost."""


def calibrate(
    model: DNC,
    task: AbstractTask | str,
    *,
    lengths: Iterable[int] = LENGTHS,
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


def digitise(model: DNC, task: AbstractTask | str, *, lengths: Iterable[int] = LENGTHS) -> DNC:
    """The model with hard writes and snapped states, as far as `calibrate` chooses them."""
    return calibrate(model, task, lengths=lengths).apply(model)
