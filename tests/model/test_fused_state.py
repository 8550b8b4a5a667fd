"""Runs that continue from a state: two halves against the whole, gradients against pure."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from builders import random_inputs, small_dnc
from fused_runs import KEY, ODD, compiled, with_constraints

from constrained_dnc.errors import SettingError
from constrained_dnc.model import fused
from constrained_dnc.model.backend import FusedBackend, PureBackend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.constraints import Compression, Noise
from constrained_dnc.model.growing import Growing
from constrained_dnc.parts import APPROACHES
from constrained_dnc.tasks.registry import get_task


@compiled
@pytest.mark.parametrize("simd", fused.simd_levels())
@pytest.mark.parametrize("size", [1, 13, 150])
@pytest.mark.parametrize(
    "approach", ["stateful-baseline", "compr", "stateless-baseline", "compr+reg+used"]
)
def test_two_halves_are_the_whole_bit_for_bit(approach, size, simd):
    dnc, inputs = small_dnc(approach, ODD).with_memory_size(size), random_inputs(20, 5)
    kernel = fused.FusedUnroll(2, simd)
    whole = kernel.forward(dnc, inputs, end=True)
    for keep in (False, True):
        first = kernel.forward(dnc, inputs[:7], end=True, keep=keep)
        second = kernel.forward(dnc, inputs[7:], state=first.state, end=True, keep=keep)
        np.testing.assert_array_equal(
            np.concatenate([first.outputs, second.outputs]), whole.outputs
        )
        ends = zip(*map(jax.tree.leaves, (second.state, whole.state)), strict=True)
        assert all(np.array_equal(a, b) for a, b in ends)


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "stateless-baseline", "compr+reg+used"])
def test_each_backend_continues_from_the_state_of_the_other(approach):
    """Slots used almost equally may change places, so that states are compared by what follows."""
    dnc, inputs = small_dnc(approach, ODD, scale=0.5), random_inputs(8, 3)
    pure, ours = PureBackend("squared error"), FusedBackend("squared error")
    first, theirs = (backend.forward(dnc, inputs[:4]) for backend in (ours, pure))
    assert jax.tree.structure(first.state) == jax.tree.structure(theirs.state)
    swapped = (
        ours.forward(dnc, inputs[4:], theirs.state),
        pure.forward(dnc, inputs[4:], first.state),
    )
    for second in swapped:
        np.testing.assert_allclose(
            second.outputs, dnc.unroll(inputs).outputs[4:], rtol=1e-4, atol=1e-5
        )
    assert ours.forward(dnc, inputs, keep_state=False).state is None
    assert ours.forward(dnc.with_memory_size(Growing(5)), inputs).state is None


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "peephole", "stateful-baseline+used"])
def test_gradients_from_a_state_agree(approach):
    """The state is a constant: the trainable start gets no gradient."""
    task = get_task("add")
    batch, before = task.sample(0, 3, 3), task.sample(1, 3, 2)
    dnc = build_dnc(APPROACHES[approach], task, ODD, key=jax.random.key(0))
    dnc = with_constraints(dnc, Compression(), Noise(0.1))
    backends = PureBackend("squared error"), FusedBackend("squared error", 2)
    state = backends[1].forward(dnc, before.inputs).state
    (loss, parts, gradient, _), ours = (
        backend.value_and_grad_from(dnc, batch, state, KEY) for backend in backends
    )
    np.testing.assert_allclose(ours[0], loss, rtol=1e-5)
    assert parts.keys() == ours[1].keys()
    for a, b in zip(*map(jax.tree.leaves, (gradient, ours[2])), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * max(1e-12, float(np.max(np.abs(a)))))
    assert not np.any(ours[2].controller.initial_cell)
    assert jax.tree.structure(ours[3]) == jax.tree.structure(state)


@compiled
def test_a_state_of_another_model_is_refused():
    dnc, inputs = small_dnc("compr", ODD), random_inputs(4, 3)
    backend = FusedBackend("squared error")
    state = backend.forward(dnc, inputs).state
    for other, values in ((dnc, inputs[:, :2]), (dnc.with_memory_size(14), inputs)):
        with pytest.raises(SettingError, match="the state must be arrays of the shapes"):
            backend.forward(other, values, state)
    with pytest.raises(SettingError, match="growing memory cannot continue from a state"):
        backend.forward(dnc.with_memory_size(Growing(13)), inputs, state)
