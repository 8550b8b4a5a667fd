"""The floor: the score of the best answer that knows the length but not the input.

A score near the floor says nothing about a network. A sorted sequence of 1000 numerals can mostly
be guessed without reading them, so the floor is 95.5 %; for copying it is 20 % at any length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy import stats

from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Batch

STORED = Path(__file__).with_name("floors.json")
SAMPLES = 2048
"""An answer is chosen on this many samples and scored on as many others."""
SAMPLED_ANSWERS = 16
MARGIN = 0.1


def floor(task: AbstractTask | str, length: int) -> float:
    """The score of the best fixed answer at a length.

    It is stored for built-in tasks and otherwise computed when first needed; the samples depend
    on the length alone, so that it never changes.
    """
    task = get_task(task) if isinstance(task, str) else task
    is_built_in = type(task).__module__.startswith("constrained_dnc.tasks.")
    stored = _stored().get(task.name, {}) if is_built_in else {}
    return stored[str(length)] if str(length) in stored else compute_floor(task, length)


def least_score_to_go_on(floor: float) -> float:
    """The score below which longer inputs are not worth the time.

    It is 10 points above the floor, or halfway to a perfect score if that is less.

    >>> round(least_score_to_go_on(0.2), 3), round(least_score_to_go_on(0.9), 3)
    (0.3, 0.95)
    """
    return floor + min(MARGIN, (1 - floor) / 2)


@cache
def compute_floor(task: AbstractTask, length: int) -> float:
    """Choose the best of a few fixed answers on samples of the task, then score it on others.

    The answers are: at every entry the most frequent target value, at every entry the median, and
    the targets of 16 samples. The first is optimal wherever entries are scored one by one, as in
    all tasks of the package but search: its answers are lists of any length, and the best list may
    not be among the candidates.
    """
    chosen_on, scored_on = (task.sample((index, length), SAMPLES, length) for index in (0, 1))
    answers = list(_answers(chosen_on))
    scores = [_score(task, chosen_on, answer) for answer in answers]
    return _score(task, scored_on, answers[int(np.argmax(scores))])


def _answers(batch: Batch) -> Iterator[Float[np.ndarray, "time outputs"]]:
    yield stats.mode(batch.targets, axis=1).mode
    yield np.median(batch.targets, axis=1)
    yield from batch.targets[:, :SAMPLED_ANSWERS].swapaxes(0, 1)


def _score(task: AbstractTask, batch: Batch, answer: Float[np.ndarray, "time outputs"]) -> float:
    outputs = np.broadcast_to(answer[:, np.newaxis], batch.targets.shape)
    return float(task.score(batch, outputs).score.mean())


@cache
def _stored() -> dict[str, dict[str, float]]:
    return json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}


def write_floors(tasks: Iterable[str], lengths: Iterable[int]) -> None:
    """Store the floors that are shipped with the package.

    From a clone: `write_floors(task_names(), [*range(1, 101), *range(150, 1001, 50)])`.
    """
    lengths = list(lengths)
    floors = {
        task: {str(length): round(compute_floor(get_task(task), length), 4) for length in lengths}
        for task in tasks
    }
    STORED.write_text(json.dumps(floors, indent=0) + "\n", encoding="utf-8")
