"""One-hot writes and snapped states in the kernel, which has them forward only."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from builders import random_inputs, small_dnc
from fused_runs import ODD, compiled, with_constraints

from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.digital import with_writes
from constrained_dnc.model import fused
from constrained_dnc.model.backend import FusedBackend, PureBackend, choose_backend
from constrained_dnc.model.constraints import Compression, Noise, Rounding, Snapping
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.tasks.registry import get_task


def states(count: int, width: int = ODD.hidden_size, seed: int = 0):
    """Random states: far from each other compared with rounding errors."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=(count, width)), jnp.float32)


def agree(dnc: DNC, inputs, **kernel) -> None:
    ours, pure = (
        fused.FusedUnroll(**kernel).forward(dnc, inputs),
        PureBackend("squared error").forward(dnc, inputs, keep_state=False),
    )
    np.testing.assert_allclose(ours.outputs, pure.outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.cell_states, pure.cell_states, rtol=1e-4, atol=1e-5)


@compiled
@pytest.mark.parametrize("writes", ["one-hot", "one-hot-allocation"])
@pytest.mark.parametrize("size", [1, 13, Growing(3)], ids=str)
@pytest.mark.parametrize("approach", ["lstm-compr", "stateless-baseline", "compr+reg+used"])
def test_one_hot_writes_agree_with_the_pure_model(approach, size, writes):
    dnc = with_writes(small_dnc(approach, ODD), writes).with_memory_size(size)
    inputs = random_inputs(9, 4)
    agree(dnc, inputs, threads=2)
    if not isinstance(size, Growing) and writes == "one-hot":
        written = fused.FusedUnroll().forward(dnc, inputs, weights=True).write_weights
        assert np.all(np.sum(written != 0, axis=-1) <= 1)
        assert written.any()


@compiled
@pytest.mark.parametrize("simd", fused.simd_levels())
@pytest.mark.parametrize("count", [1, 7, 1300])
@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg+used"])
def test_snapped_states_agree_with_the_pure_model(approach, count, simd):
    """Alone and after other constraints; more states than are compared at once."""
    dnc = small_dnc(approach, dataclasses.replace(ODD, clip_value=1.5))
    dnc = with_constraints(dnc, *dnc.constraints, Snapping(states(count)))
    agree(with_writes(dnc, "one-hot-allocation"), random_inputs(7, 13), simd=simd)


@compiled
def test_snapping_may_come_anywhere():
    constraints = Rounding(9), Snapping(states(20)), Compression(), Snapping(states(5)), Noise(0.1)
    dnc = with_constraints(small_dnc("peephole", ODD), *constraints)
    agree(dnc, random_inputs(7, 5))


@compiled
def test_the_first_of_equal_states_is_taken_also_for_what_is_not_a_number():
    few = np.array(states(600))
    few[[3, 7, 598]] = few[50]  # blocks and lanes apart
    dnc = with_constraints(small_dnc("peephole", ODD), Snapping(jnp.asarray(few)))
    inputs = np.array(random_inputs(6, 40))
    inputs[0, 0] = np.nan
    cells = fused.FusedUnroll().forward(dnc, inputs).cell_states.reshape(-1, ODD.hidden_size)
    assert all(np.any(np.all(cell == few, axis=-1)) for cell in cells)
    np.testing.assert_array_equal(cells[0], few[0])


@compiled
@pytest.mark.parametrize(
    "dnc",
    [
        with_writes(small_dnc("compr"), "one-hot"),
        with_constraints(small_dnc("compr"), Snapping(states(3, 4))),
    ],
    ids=["writes", "states"],
)
def test_what_has_no_gradient_says_so(dnc):
    assert choose_backend("auto", dnc, "squared error").name == "fused"
    batch = get_task("add").sample(0, 2, 3)
    with pytest.raises(SettingError, match="one-hot writes and snapped states have no gradient"):
        FusedBackend("squared error").value_and_grad(dnc, batch)
