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
    the targets of 16 samples; for choices by softmax, at every entry the most frequent choice only,
    where a sample counts less the more entries it has, as in the score. Wherever entries are scored
    one by one the most frequent value is optimal. That is so in all tasks of the package but
    search: its answers are lists of any length, and the best list may not be among the candidates.
    """
    chosen_on, scored_on = (task.sample((index, length), SAMPLES, length) for index in (0, 1))
    answers = list(_answers(task, chosen_on))
    best = 0
    if len(answers) > 1:
        best = int(np.argmax([_score(task, chosen_on, answer) for answer in answers]))
    return _score(task, scored_on, answers[best])


def _answers(task: AbstractTask, batch: Batch) -> Iterator[Float[np.ndarray, "time outputs"]]:
    if task.groups:
        weights = batch.mask / batch.mask.sum(axis=0)
        yield np.einsum("tbo,tb->to", batch.targets, weights)
        return
    from scipy import stats  # noqa: PLC0415 - takes a second

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

    From a clone: `write_floors(task_names(), [*range(1, 101), *range(150, 1001, 50)])`. Those that
    are there are kept.
    """
    lengths = list(lengths)
    floors = dict(_stored())
    for task in tasks:
        stored = floors.get(task, {})
        missing = [length for length in lengths if str(length) not in stored]
        new = {str(length): round(compute_floor(get_task(task), length), 4) for length in missing}
        floors[task] = dict(sorted({**stored, **new}.items(), key=lambda item: int(item[0])))
    rows = [f"{json.dumps(task)}: {json.dumps(values)}" for task, values in floors.items()]
    STORED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
