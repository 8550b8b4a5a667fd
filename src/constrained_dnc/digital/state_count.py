"""The state count k* of a model: how small a machine it is at training lengths.

It is only reported: digital inference chooses its states in `calibration.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from constrained_dnc.digital.candidates import Candidates
from constrained_dnc.digital.states import LENGTHS
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.task import AbstractTask

COUNTS = tuple(2**power for power in range(13))


def state_count(
    model: DNC,
    task: AbstractTask | str,
    *,
    lengths: Iterable[int] = LENGTHS,
    seed: int = 0,
    threads: int | None = None,
) -> int | None:
    """k*: the fewest states to which the cell state can snap so that 99 % of the score is kept.

    Powers of two up to 4096 are tried. None if these are too few, or if the model answers no better
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
