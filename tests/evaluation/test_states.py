"""States at training lengths and their centroids, compared with plain NumPy."""

import jax
import numpy as np
import pytest

from constrained_dnc.evaluation.states import (
    STATE_BATCHES,
    calibration_batches,
    centroids,
    training_states,
)
from constrained_dnc.model.build import build_dnc
from constrained_dnc.parts import APPROACHES
from constrained_dnc.tasks.registry import get_task
from tiny_runs import TINY_MODEL


def test_training_states_are_those_of_every_step_that_a_sample_has():
    task = get_task("search")  # its samples differ in their number of steps
    model = build_dnc(APPROACHES["compr"], task, TINY_MODEL, key=jax.random.key(0))
    expected = []
    for batch in calibration_batches(task, (2, 4), STATE_BATCHES):
        states = np.asarray(model.unroll(batch.inputs).cell_states)
        for step, sample in np.ndindex(states.shape[:2]):
            if step < batch.num_steps[sample]:
                expected.append(states[step, sample])
    states = training_states(model, task, (2, 4))
    np.testing.assert_allclose(states, expected, atol=1e-5)


def test_centroids_are_the_means_of_clusters():
    rng = np.random.default_rng(0)
    places = 10 * np.eye(4, 6)
    noise = rng.normal(size=(4, 300, 6))
    states = np.asarray(places[:, None] + noise, np.float32)
    means = states.mean(axis=1)
    found = centroids(states.reshape(-1, 6), 4)
    nearest = found[np.linalg.norm(found[None] - means[:, None], axis=-1).argmin(axis=1)]
    np.testing.assert_allclose(nearest, means, atol=0.2)
    np.testing.assert_array_equal(found, centroids(states.reshape(-1, 6), 4))


@pytest.mark.parametrize("count", [3, 8, None])
def test_few_distinct_states_are_their_own_centroids(count):
    states = np.repeat(np.float32([[1, 2], [0, 5], [3, 3]]), 50, axis=0)
    assert sorted(map(tuple, centroids(states, count))) == [(0, 5), (1, 2), (3, 3)]
