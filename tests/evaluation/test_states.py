"""States at training lengths and their centroids, compared with plain NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from constrained_dnc.evaluation.states import (
    SCORE_BATCHES,
    STATE_BATCHES,
    calibration_batches,
    centroids,
    distinct_states,
    drift,
    spread,
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


@pytest.mark.parametrize("name", ["copy", "search", "logic"])
def test_drift_is_the_median_distance_to_the_nearest_state_of_training(name):
    task = get_task(name)
    model = build_dnc(APPROACHES["compr"], task, TINY_MODEL, key=jax.random.key(0))

    def visited(lengths, indices):
        phases = [], []
        for batch in calibration_batches(task, lengths, indices):
            states = np.asarray(model.unroll(batch.inputs).cell_states, np.float64)
            for step, sample in np.ndindex(states.shape[:2]):
                if step < task.encoding_steps(batch.length):
                    phases[0].append(states[step, sample])
                if batch.mask[step, sample]:
                    phases[1].append(states[step, sample])
        return [np.array(states) for states in phases]

    training = visited(spread(2, 5), STATE_BATCHES)
    measured = drift(model, task, (2, 5), (7, 9))
    for states, found in zip(training, measured.spread, strict=True):
        squares = [((state - states.mean(axis=0)) ** 2).sum() for state in states]
        assert found == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-4)
    for row, length in enumerate((7, 9)):
        for phase, states in enumerate(visited([length], SCORE_BATCHES[:1])):
            nearest = [np.linalg.norm(training[phase] - state, axis=1).min() for state in states]
            assert measured.distance[row, phase] == pytest.approx(np.median(nearest), rel=1e-3)
            ratio = measured.distance[row, phase] / measured.spread[phase]
            assert measured.relative[row, phase] == pytest.approx(ratio)


def test_states_of_training_do_not_drift():
    task = get_task("copy")
    model = build_dnc(APPROACHES["round+reg"], task, TINY_MODEL, key=jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, model.controller)
    still = eqx.tree_at(lambda model: model.controller, model, zeros)
    measured = drift(still, task, (1, 3), (5,))
    assert (measured.distance == 0).all()
    assert (measured.spread == 0).all()
    assert (measured.relative == 0).all()


def test_distinct_states_are_counted_over_all_steps_and_lengths():
    task = get_task("search")
    model = build_dnc(APPROACHES["round+reg"], task, TINY_MODEL, key=jax.random.key(0))
    found = set()
    for batch in calibration_batches(task, (2, 4), [0]):
        states = np.asarray(model.unroll(batch.inputs).cell_states)
        for step, sample in np.ndindex(states.shape[:2]):
            if step < batch.num_steps[sample]:
                found.add(tuple(states[step, sample].tolist()))
    assert 1 < len(found) < 1000
    assert distinct_states(model, task, (2, 4)) == len(found)
