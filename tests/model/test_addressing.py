"""Allocation, look-up and link on the cases where they could surprise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from constrained_dnc.model import addressing
from constrained_dnc.model.addressing import (
    allocation_weights,
    content_weights_of_used_slots,
    cosine_similarity,
    softmax_over_slots,
)

entries = st.one_of(st.sampled_from([0.0, 1e-7, 0.5, 1 - 1e-7, 1.0]), st.floats(0, 1))
usages = st.sampled_from([1, 2, 9, 24]).flatmap(
    lambda size: st.lists(entries, min_size=size, max_size=size)
)


@pytest.fixture(params=["compared", "sorted"])
def way(request, monkeypatch):
    """Both ways of finding the order of the slots."""
    if request.param == "sorted":
        monkeypatch.setattr(addressing, "LARGEST_COMPARED_MEMORY", 0)
    return request.param


@pytest.mark.parametrize("limit", [0, 100])
@given(usage=usages)
@settings(max_examples=60, deadline=None)
def test_allocation_agrees_with_the_free_list(limit, usage):
    """Ties included: among equals the lower index comes first."""
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(addressing, "LARGEST_COMPARED_MEMORY", limit)
        ours = allocation_weights(jnp.asarray(usage))
    np.testing.assert_allclose(ours, reference.allocation(np.array(usage)), rtol=1e-9, atol=1e-15)


def test_allocation_of_an_empty_memory_takes_the_first_slot(way):
    weights = allocation_weights(jnp.zeros(7))
    np.testing.assert_allclose(weights, [1, 0, 0, 0, 0, 0, 0], atol=2e-6)


def test_gradient_of_allocation_is_that_of_the_product(way):
    """d a_i / d u_j in closed form, with ties, zeros and ones."""
    eps = addressing.EPSILON
    usage = np.array([0.3, 0.0, 1.0, 0.3, 0.8, 0.0])
    with jax.enable_x64(True):
        jacobian = np.asarray(jax.jacobian(allocation_weights)(jnp.asarray(usage)))
    used = eps + (1 - eps) * usage
    order = sorted(range(6), key=lambda i: (used[i], i))
    for rank, i in enumerate(order):
        before = order[:rank]
        for j in range(6):
            expected = -np.prod(used[before]) if j == i else 0.0
            if j in before:
                expected = (1 - used[i]) * np.prod([used[k] for k in before if k != j])
            np.testing.assert_allclose(jacobian[i, j], (1 - eps) * expected, rtol=1e-9, atol=1e-15)


def test_allocation_has_a_finite_gradient_at_large_sizes(way):
    gradient = jax.grad(lambda u: jnp.sum(allocation_weights(u) ** 2))(jnp.zeros(500))
    assert np.all(np.isfinite(gradient))


def test_cosine_similarity_of_a_zero_row_is_zero_with_a_finite_gradient():
    rows = jnp.array([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(cosine_similarity(rows, rows), [[0, 0], [0, 1]], atol=1e-6)
    gradient = jax.grad(lambda r: jnp.sum(cosine_similarity(r, r)))(rows)
    assert np.all(np.isfinite(gradient))


def test_softmax_over_slots_is_a_softmax_with_its_derivatives():
    scores = np.random.default_rng(0).normal(size=(3, 6)) * 4
    with jax.enable_x64(True):
        weights = softmax_over_slots(jnp.asarray(scores))
        jacobian = jax.jacrev(softmax_over_slots)(jnp.asarray(scores))
        forward = jax.jacfwd(softmax_over_slots)(jnp.asarray(scores))
    for head in range(3):
        w = reference.softmax(scores[head])
        np.testing.assert_allclose(weights[head], w, rtol=1e-12)
        expected = np.diag(w) - np.outer(w, w)
        np.testing.assert_allclose(jacobian[head, :, head], expected, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(forward[head, :, head], expected, rtol=1e-9, atol=1e-15)


def test_softmax_over_slots_keeps_small_gradients_of_large_cotangents():
    """float32: all slots alike, cotangents equal to five digits."""
    cotangent = 1 + 1e-5 * np.random.default_rng(0).normal(size=(1, 50))
    cotangent = cotangent.astype(np.float32)
    _, pull = jax.vjp(softmax_over_slots, jnp.zeros((1, 50)))
    (ours,) = pull(jnp.asarray(cotangent))
    exact = (cotangent.astype(float) - cotangent.astype(float).mean()) / 50
    assert np.max(np.abs(ours - exact)) < 1e-5 * np.max(np.abs(exact))


def one_slot_as_the_key(usage, strength):
    """Weights in a memory whose first slot is the key, the second its opposite, the third empty."""
    memory = jnp.array([[0.6, 0.8], [-0.6, -0.8], [0.0, 0.0]]) * 1e3
    return content_weights_of_used_slots(
        memory, memory[:1], jnp.array([strength]), jnp.asarray(usage)
    )[0]


@given(
    usage=st.lists(entries, min_size=3, max_size=3),
    strength=st.sampled_from([0.0, 0.1, 3.0, 30.0]),
)
@settings(max_examples=60, deadline=None)
def test_look_up_over_used_slots_agrees_with_its_definition(usage, strength):
    with jax.enable_x64(True):
        ours = one_slot_as_the_key(usage, strength)
    parts = np.array(usage) * np.exp(strength * np.array([1, -1, 0]))
    np.testing.assert_allclose(ours, parts / (1 + sum(parts)), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("strength", [10.0, 85.0, 100.0, 1e4])
@pytest.mark.parametrize("freed", [0.0, -1e-7])
def test_a_freed_slot_is_not_found_however_well_it_fits(freed, strength):
    """float32, where exp(89) is infinite: the weight of the empty slot stays what it is."""
    weights = one_slot_as_the_key([freed, 1.0, 1.0], strength)
    np.testing.assert_allclose(weights, [0, 0, 0.5], atol=1e-4)
    jacobian = jax.jacobian(lambda usage: one_slot_as_the_key(usage, strength))(
        jnp.array([freed, 1.0, 1.0])
    )
    assert np.all(np.isfinite(jacobian))


def test_the_gradient_of_a_slot_that_is_not_used_is_the_whole_one():
    """d c_0 / d u_0 at u_0 = 0 is exp(beta) / (1 + sum), not a half of it."""
    with jax.enable_x64(True):
        slope = jax.grad(lambda u: one_slot_as_the_key(u, 3.0)[0])(jnp.array([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(slope[0], np.exp(3) / 2, rtol=1e-5)
