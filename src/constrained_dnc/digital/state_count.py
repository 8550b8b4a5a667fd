"""The state count of a model: how small a machine it is at training lengths."""

from __future__ import annotations

from collections.abc import Iterable

from constrained_dnc.digital.calibration import Calibration
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
    return count_states(Calibration(model, task, lengths, seed, threads))


def count_states(calibration: Calibration) -> int | None:
    """The state count of the model that is being calibrated."""
    if not calibration.loss_to_lose > 0:  # NaN too
        return None
    if not calibration.can_snap:
        return None if calibration.states.shape[1] else 1
    for count in COUNTS:
        states = calibration.centroids(count)
        if calibration.keeps_score(calibration.measure("soft", states)):
            return len(states)
        if len(states) < count:
            return None
    return None
