"""Look-up over used slots: nothing depends on the number of slots while one is free."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import random_inputs, small_dnc
from fused_runs import compiled

from constrained_dnc.model import fused
from constrained_dnc.model.config import ModelConfig

SIZES = ModelConfig(memory_size=20, word_size=5, num_reads=2, hidden_size=8)
USED = ["stateful-baseline+used", "compr+reg+used"]
SCALES = [0.3, 1.0, 2.0]  # of all parameters: gates half open, open, saturated


def far_apart(ours, theirs) -> float:
    """The largest difference of two lists of arrays, relative to the largest entry of each."""
    return max(
        float(np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-3))
        for a, b in zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True)
    )


@eqx.filter_jit
def values_and_gradients(model, inputs, memory_size):
    def loss(model):
        run = model.with_memory_size(memory_size).unroll(inputs)
        total = jnp.sum(jnp.sin(3 * run.outputs)) + jnp.sum(run.cell_states**2)
        return total, (run.outputs, run.cell_states, jnp.any(run.state.memory.usage == 0, -1))

    gradient, (outputs, cells, untouched) = eqx.filter_grad(loss, has_aux=True)(model)
    return [outputs, cells], jax.tree.leaves(gradient), untouched


@pytest.mark.parametrize("approach", USED)
def test_in_float64_while_a_slot_is_untouched(approach):
    """A write touches some fifty slots before its weights are 0 in float64, so N is large.

    170 slots are sorted and 90 are compared, so this is no accident of the order of sums.
    """
    with jax.enable_x64(True):
        for seed in range(3):
            model = small_dnc(approach, SIZES, SCALES[seed % 3], seed)
            inputs = random_inputs(6, 2, seed)
            few, few_slopes, untouched = values_and_gradients(model, inputs, 90)
            many, many_slopes, _ = values_and_gradients(model, inputs, 170)
            assert np.all(untouched)
            assert far_apart(few, many) < 1e-10
            assert far_apart(few_slopes, many_slopes) < 1e-10


def most_used(write_weights) -> np.ndarray:
    """The usage of every slot if none was ever freed: at least the true one."""
    usage = np.zeros(write_weights.shape[1:])
    for weights in write_weights:
        usage += (1 - usage) * weights
    return usage


@compiled
@pytest.mark.parametrize("approach", USED)
def test_in_float32_while_a_slot_is_free(approach):
    """All slots are touched, but one has almost no usage: with more slots another one has."""
    kernel, checked = fused.FusedUnroll(), 0
    for seed in range(30):
        model = small_dnc(approach, SIZES, SCALES[seed % 3], seed)
        inputs = random_inputs(12, 2, seed)
        results = []
        for size in (20, 21, 50, 400):
            run = kernel.forward(model.with_memory_size(size), inputs, keep=True, weights=True)
            slopes = kernel.backward(run, np.cos(3 * run.outputs), 2 * run.cell_states)
            results.append(([run.outputs, run.cell_states], jax.tree.leaves(slopes)))
            if size == 20:
                usage = most_used(run.write_weights)
                assert np.all(np.any(run.write_weights != 0, axis=0))
        if np.max(np.min(usage, axis=-1)) > 1e-5:
            continue
        checked += 1
        for values, slopes in results[1:]:
            assert far_apart(values, results[0][0]) < 1e-4
            assert far_apart(slopes, results[0][1]) < 1e-4
    assert checked >= 15


@compiled
def test_in_float32_no_bit_changes_while_eight_slots_are_untouched():
    model, inputs = small_dnc(USED[0], SIZES), random_inputs(30, 3)
    kernel = fused.FusedUnroll()
    few, many = (
        kernel.forward(model.with_memory_size(size), inputs, weights=True) for size in (150, 3000)
    )
    assert np.count_nonzero(np.any(few.write_weights != 0, axis=0), axis=-1).max() < 142
    np.testing.assert_array_equal(few.outputs, many.outputs)


@compiled
def test_the_look_up_over_every_slot_and_a_full_memory_are_not_invariant():
    """What the tests above would see, and where the promise ends."""
    kernel, inputs = fused.FusedUnroll(), random_inputs(12, 2)

    def difference(approach: str, few: int, many: int) -> float:
        model = small_dnc(approach, SIZES)
        return far_apart(
            *([kernel.forward(model.with_memory_size(n), inputs).outputs] for n in (few, many))
        )

    assert difference("stateful-baseline", 90, 170) > 1e-3
    assert difference("stateful-baseline+used", 3, 20) > 1e-3
