"""Step by step what the tasks with L symbols in and L out give to the network."""

from __future__ import annotations

import numpy as np
import pytest

from constrained_dnc.tasks import AbstractTask, get_task

NAMES = ("sort", "copy", "differentiation", "shift", "add")
EVERY_TASK = pytest.mark.parametrize("task", [*map(get_task, NAMES)], ids=NAMES)


@EVERY_TASK
@pytest.mark.parametrize("length", [1, 2, 6, 15])
def test_steps(task: AbstractTask, length: int) -> None:
    """Steps numbered from 1, as in the paper."""
    batch = task.sample(2, 5, length)
    assert task.num_steps(length) == 2 * length + 2
    for step in range(1, 2 * length + 3):
        inputs, targets = batch.inputs[step - 1], batch.targets[step - 1]
        is_result = length + 2 <= step <= 2 * length + 1
        is_end = step == 2 * length + 2
        assert np.all(inputs[:, -1] == (step == length + 1))
        assert np.all(targets[:, -1] == is_end)
        assert np.all(batch.mask[step - 1] == (is_result or is_end))
        if step > length:
            assert not inputs[:, :-1].any()
        if not is_result:
            assert not targets[:, :-1].any()


@EVERY_TASK
@pytest.mark.parametrize("length", [1, 7])
def test_score_against_loops(task: AbstractTask, length: int) -> None:
    """Entries of the result channels at the result steps; the signal does not count."""
    batch = task.sample(4, 30, length)
    outputs = batch.targets + np.random.default_rng(0).normal(0, 1, batch.targets.shape)
    scores = task.score(batch, outputs)
    for sample in range(30):
        correct = []
        for step in range(length + 1, 2 * length + 1):
            for channel in range(task.output_size - 1):
                output = float(outputs[step, sample, channel])
                target = float(batch.targets[step, sample, channel])
                if task.name == "add":
                    correct.append((output > 0) == (target > 0))
                else:
                    correct.append(round((output + 1) * 2) == round((target + 1) * 2))
        assert scores.score[sample] == pytest.approx(sum(correct) / len(correct), abs=1e-12)
        assert scores.sequence_accuracy[sample] == all(correct)
    assert 0.1 < scores.score.mean() < 0.95  # the comparison saw right and wrong entries
