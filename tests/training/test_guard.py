"""The guarded update against Optax, and with faults."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from constrained_dnc.config import TrainingConfig
from constrained_dnc.training.optimiser import guarded_update, make_optimiser

PARAMETERS = {"w": jnp.asarray([1.0, -2.0]), "b": jnp.asarray(0.5)}


def plain_adam(parameters, gradients, clip_norm, rate, beta_1, beta_2, epsilon):
    """Adam with clipping, in NumPy and double precision."""
    first = second = np.zeros_like(parameters)
    for step, gradient in enumerate(gradients, 1):
        clipped = gradient * min(1, clip_norm / np.sqrt((gradient**2).sum()))
        first = beta_1 * first + (1 - beta_1) * clipped
        second = beta_2 * second + (1 - beta_2) * clipped**2
        scaled = first / (1 - beta_1**step) / (np.sqrt(second / (1 - beta_2**step)) + epsilon)
        parameters = parameters - rate * scaled
    return parameters


def test_updates_are_those_of_adam_with_clipping():
    settings = TrainingConfig(learning_rate=0.02, clip_norm=2.0)
    optimiser = make_optimiser(settings)
    update = guarded_update(optimiser)
    gradients = np.random.default_rng(0).normal(size=(6, 3)) * 3
    parameters, state = {"p": jnp.asarray([1.0, 2.0, 3.0])}, None
    state = optimiser.init(parameters)
    for gradient in gradients:
        parameters, state, norm, made = update(
            parameters, state, {"p": jnp.asarray(gradient, jnp.float32)}, jnp.asarray(1.0)
        )
        assert made
        assert norm == pytest.approx(np.linalg.norm(gradient), rel=1e-5)
    expected = plain_adam(np.array([1.0, 2, 3]), gradients, 2.0, 0.02, 0.9, 0.999, 1e-8)
    np.testing.assert_allclose(parameters["p"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("gradient", "loss"),
    [
        ([1.0, np.nan], 1.0),
        ([np.inf, 1.0], 1.0),
        ([1.0, 1.0], np.nan),
        ([3e38, 3e38], 1.0),  # finite, but its norm is not
    ],
)
def test_nothing_changes_when_something_is_not_finite(gradient, loss):
    optimiser = make_optimiser(TrainingConfig())
    update = guarded_update(optimiser)
    fine = {"w": jnp.ones(2), "b": jnp.asarray(1.0)}
    parameters, state, *_ = update(PARAMETERS, optimiser.init(PARAMETERS), fine, jnp.asarray(1.0))
    bad = {"w": jnp.asarray(gradient), "b": jnp.asarray(1.0)}
    after, state_after, _, made = update(parameters, state, bad, jnp.asarray(loss))
    assert not made
    assert optax.tree.get(state_after, "count") == optax.tree.get(state, "count")
    for name in PARAMETERS:
        np.testing.assert_array_equal(after[name], parameters[name])
        for moment in ("mu", "nu"):
            old, new = (optax.tree.get(s, moment)[name] for s in (state, state_after))
            np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize(
    ("settings", "gradient", "steps"),
    [
        ({"learning_rate": 3e38}, 1.0, 3),  # the second step of its size overflows
        (
            {"learning_rate": 1e32, "epsilon": 1.2e-38},
            1e-30,
            1,
        ),  # its square is 0, the quotient huge
    ],
)
def test_a_step_that_overflows_is_not_made(settings, gradient, steps):
    optimiser = make_optimiser(TrainingConfig(**settings))
    update = guarded_update(optimiser)
    parameters = {"w": jnp.asarray([1.0, -2.0])}
    state, made = optimiser.init(parameters), []
    for _ in range(steps):
        parameters, state, norm, done = update(
            parameters, state, {"w": jnp.full(2, gradient)}, jnp.asarray(1.0)
        )
        assert np.isfinite(norm)
        made.append(bool(done))
    assert not made[-1]
    for leaf in jax.tree.leaves((parameters, state)):
        assert np.isfinite(leaf).all()
