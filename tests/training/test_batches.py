"""Streams: every batch has its own key."""

import jax
import numpy as np
import pytest
from scipy.stats import chisquare

from constrained_dnc.config import make_config
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.batches import (
    constraint_key,
    entropy_batch,
    evaluation_batch,
    random_key,
    sample_iteration,
    training_batch,
)
from constrained_dnc.training.parameters import initial_model
from tiny_runs import tiny_config


def test_an_iteration_always_has_the_same_data():
    task, config = get_task("sort"), make_config("sort", "reg", seed=4)
    first, again = sample_iteration(task, config, 70), sample_iteration(task, config, 70)
    np.testing.assert_array_equal(first.batch.inputs, again.batch.inputs)
    np.testing.assert_array_equal(first.unseen.inputs, again.unseen.inputs)
    assert first.unseen.length == 30
    assert first.batch.inputs.shape[1] == first.unseen.inputs.shape[1] == 64
    assert sample_iteration(task, config, 71).unseen is None


def test_all_bits_of_a_seed_count():
    seeds = [5, 2**31 + 5, 2**32 + 5, 2**33 + 5, 2**63 - 1]
    configs = [tiny_config(seed=seed) for seed in seeds]
    keys = {str(jax.random.key_data(constraint_key(config, 1))) for config in configs}
    weights = {np.asarray(initial_model(config).output_weight).tobytes() for config in configs}
    assert len(keys) == len(weights) == len(seeds)
    assert random_key(5) == jax.random.key(5)


def test_lengths_are_uniform():
    task, config = get_task("copy"), tiny_config(min_length=2, max_length=5)
    lengths = [training_batch(task, config, i).length for i in range(1, 1201)]
    values, counts = np.unique(lengths, return_counts=True)
    assert values.tolist() == [2, 3, 4, 5]
    assert chisquare(counts).pvalue > 1e-4


def test_no_two_streams_share_a_batch(monkeypatch):
    task = get_task("copy")
    keys = []
    sample = type(task).sample

    def spy(self, key, batch_size, length):
        keys.append(tuple(key))
        return sample(self, key, batch_size, length)

    monkeypatch.setattr(type(task), "sample", spy)
    for seed in range(6):
        config = tiny_config(seed=seed, measure_every=1)
        for iteration in range(1, 8):
            sample_iteration(task, config, iteration)
            entropy_batch(task, config, iteration)
    for length in range(1, 8):
        for index in range(8):
            evaluation_batch(task, config.evaluation, length, index)
    assert len(set(keys)) == len(keys) == 6 * 7 * 3 + 56
    assert {len(key) for key in keys} == {3, 4}


@pytest.mark.parametrize("seed", [0, 7])
def test_evaluation_does_not_depend_on_the_seed_of_training(seed):
    task = get_task("sort")
    batch = evaluation_batch(task, tiny_config("sort", seed=seed).evaluation, 9, 1)
    other = evaluation_batch(task, tiny_config("sort", seed=1).evaluation, 9, 1)
    np.testing.assert_array_equal(batch.inputs, other.inputs)
