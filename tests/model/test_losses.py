"""Losses against plain loops and finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from constrained_dnc.errors import SettingError
from constrained_dnc.model.constraints import Compression, Regularisation, state_loss
from constrained_dnc.model.dnc import Unrolled
from constrained_dnc.model.losses import task_loss, total_loss
from constrained_dnc.parts import Softmax
from typing_off import without_shape_checks


class Batch:
    def __init__(self, time=6, batch=3, outputs=2, seed=0):
        rng = np.random.default_rng(seed)
        self.targets = jnp.asarray(
            rng.integers(0, 2, (time, batch, outputs)), jnp.result_type(float)
        )
        self.mask = jnp.asarray(rng.random((time, batch)) < 0.6)
        self.num_steps = jnp.array([6, 4, 1][:batch])


@pytest.mark.parametrize("kind", ["squared error", "cross-entropy"])
def test_task_loss_is_the_mean_over_masked_steps_and_channels(kind):
    batch = Batch()
    outputs = np.random.default_rng(1).normal(size=(6, 3, 2)).astype(np.float32)
    ours = task_loss(jnp.asarray(outputs), batch, kind)
    for sample in range(3):
        errors = []
        for t in range(6):
            for channel in range(2):
                y, target = (
                    float(outputs[t, sample, channel]),
                    float(batch.targets[t, sample, channel]),
                )
                p = 1 / (1 + np.exp(-y))
                entropy = -(target * np.log(p) + (1 - target) * np.log(1 - p))
                if batch.mask[t, sample]:
                    errors.append((y - target) ** 2 if kind == "squared error" else entropy)
        np.testing.assert_allclose(ours[sample], np.mean(errors), rtol=1e-5)


class Choices(Batch):
    """One-hot targets in groups of 2 and 3 channels."""

    def __init__(self, groups):
        super().__init__(outputs=5)
        rng = np.random.default_rng(5)
        hot = [np.eye(size)[rng.integers(size, size=(6, 3))] for size in groups]
        self.targets = jnp.asarray(np.concatenate(hot, axis=2), jnp.result_type(float))


@pytest.mark.parametrize(("loss", "groups"), [("softmax", [5]), (Softmax((2, 3)), [2, 3])])
def test_softmax_is_the_mean_cross_entropy_over_masked_steps_and_groups(loss, groups):
    batch = Choices(groups)
    outputs = 5 * np.random.default_rng(1).normal(size=(6, 3, 5))
    ours = task_loss(jnp.asarray(outputs, jnp.float32), batch, loss)
    for sample in range(3):
        entropies = []
        for t in np.flatnonzero(batch.mask[:, sample]):
            first = 0
            for size in groups:
                logits = outputs[t, sample, first : first + size]
                target = np.asarray(batch.targets)[t, sample, first : first + size]
                shares = np.exp(logits) / np.exp(logits).sum()
                entropies.append(-np.log(shares[target.argmax()]))
                first += size
        np.testing.assert_allclose(ours[sample], np.mean(entropies), rtol=1e-5)


def test_gradient_of_softmax_agrees_with_finite_differences():
    rng = np.random.default_rng(6)
    with jax.enable_x64(True):
        batch = Choices([2, 3])
        outputs = jnp.asarray(rng.normal(size=(6, 3, 5)))
        loss = jax.jit(lambda y: jnp.sum(task_loss(y, batch, Softmax((2, 3)))))
        gradient = jax.grad(loss)(outputs)
        assert not gradient[~np.asarray(batch.mask)].any()
        for _ in range(5):
            direction = rng.normal(size=outputs.shape)
            slope = (loss(outputs + 1e-6 * direction) - loss(outputs - 1e-6 * direction)) / 2e-6
            np.testing.assert_allclose(np.vdot(gradient, direction), slope, rtol=1e-7)


def test_a_user_defined_loss_gives_one_number_per_sample():
    def absolute(outputs, batch):
        return jnp.mean(jnp.abs(outputs - batch.targets), axis=(0, 2))

    batch, outputs = Batch(), jnp.ones((6, 3, 2))
    expected = np.abs(1 - np.asarray(batch.targets)).mean(axis=(0, 2))
    np.testing.assert_allclose(task_loss(outputs, batch, absolute), expected, rtol=1e-6)
    with pytest.raises(SettingError, match=r"one number per sample, of shape \(3,\), not \(\)"):
        task_loss(outputs, batch, lambda outputs, batch: jnp.mean(outputs))
    with pytest.raises(SettingError, match=r"user-defined loss failed \(.*test_losses.py, line"):
        task_loss(outputs, batch, lambda outputs, batch: outputs + batch.wrong)


@pytest.mark.parametrize("num_pairs", [1, 5, 15, 100])
def test_state_loss_agrees_with_loops_with_many_and_few_pairs(num_pairs):
    states = np.random.default_rng(2).normal(size=(6, 3, 4))
    with jax.enable_x64(True):
        ours = np.asarray(state_loss(jnp.asarray(states), jnp.array([6, 4, 1]), num_pairs))
    theirs = [reference.state_loss(states[:n, b], num_pairs) for b, n in enumerate([6, 4, 1])]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-12)
    assert ours[2] == 0


@pytest.mark.parametrize("case", ["random", "a zero state", "all zero", "one pair"])
def test_gradient_of_state_loss_agrees_with_finite_differences(case):
    rng = np.random.default_rng(3)
    states = rng.normal(size=(2 if case == "one pair" else 6, 1, 4))
    if case == "a zero state":
        states[2] = 0
    if case == "all zero":
        states[:] = 0
    with jax.enable_x64(True):
        num_steps = jnp.array([states.shape[0]])
        # every pair counts, so that no direction switches between pairs at a tie
        num_pairs = 15
        loss = jax.jit(lambda s: state_loss(s, num_steps, num_pairs)[0])
        gradient = jax.grad(loss)(jnp.asarray(states))
        assert np.all(np.isfinite(gradient))
        for _ in range(5):
            direction = rng.normal(size=states.shape)
            slope = (loss(states + 1e-8 * direction) - loss(states - 1e-8 * direction)) / 2e-8
            np.testing.assert_allclose(np.vdot(gradient, direction), slope, rtol=1e-4, atol=1e-7)


def test_state_loss_is_finite_in_float32_at_zero_states():
    states = jnp.zeros((5, 2, 3))
    value, gradient = jax.value_and_grad(lambda s: jnp.sum(state_loss(s, jnp.array([5, 1]), 5)))(
        states
    )
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))


def test_total_loss_weighs_task_and_state():
    batch = Batch()
    rng = np.random.default_rng(4)
    outputs, states = (jnp.asarray(rng.normal(size=(6, 3, n)), jnp.float32) for n in (2, 4))
    loss, parts = total_loss(
        Unrolled(outputs, states), batch, "squared error", [Regularisation(0.7, 3)]
    )
    np.testing.assert_allclose(
        loss, 0.7 * parts["task_loss"] + 0.3 * parts["state_loss"], rtol=1e-6
    )
    plain, parts = total_loss(Unrolled(outputs, states), batch, "squared error", [Compression()])
    assert plain == parts["task_loss"]
    assert set(parts) == {"task_loss"}


def test_a_nan_state_is_not_hidden():
    states = jnp.full((4, 1, 3), jnp.nan)
    assert np.isnan(state_loss(states, jnp.array([4]), 5)[0])


def test_wrong_kinds_and_shapes_are_refused():
    batch = Batch()
    states = jnp.zeros((6, 3, 4))
    with without_shape_checks(), pytest.raises(SettingError, match="loss must be one of"):
        total_loss(Unrolled(jnp.zeros((6, 3, 2)), states), batch, "mse")
    with without_shape_checks(), pytest.raises(SettingError, match="shape of outputs must be"):
        total_loss(Unrolled(jnp.zeros((6, 1, 2)), states), batch, "squared error")
