"""The model against plain NumPy loops, finite differences and the laws of its equations."""

from __future__ import annotations

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import (
    NETWORKS,
    SIZES,
    SMALL,
    assert_slopes_agree,
    named_parameters,
    random_inputs,
    small_dnc,
    unroll_with_frozen_usage,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from constrained_dnc.errors import SettingError
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.dnc import DNC, Unrolled
from constrained_dnc.model.dnc_memory import DNCMemory, MemoryState
from constrained_dnc.model.growing import Growing
from constrained_dnc.model.losses import total_loss
from constrained_dnc.parts import APPROACHES, LOOKUP, PARTS

every_network = pytest.mark.parametrize("approach", NETWORKS)


def largest_relative_error(ours, theirs) -> float:
    theirs = np.asarray(theirs)
    return float(np.max(np.abs(np.asarray(ours) - theirs)) / np.max(np.abs(theirs)))


@every_network
@pytest.mark.parametrize("clip_value", [20.0, 0.3])
def test_agrees_with_plain_loops(approach, clip_value):
    with jax.enable_x64(True):
        config = ModelConfig(5, 3, 2, 4, clip_value=clip_value)
        model, inputs = small_dnc(approach, config), random_inputs(7, 2)
        unrolled = model.unroll(inputs, internals=True)
        parts = APPROACHES[approach]
        outputs, cells, raw = reference.unroll(
            parts.controller,
            bool(parts.constraints),  # compression is the only one among these
            named_parameters(model),
            np.asarray(inputs),
            (5, 3, 2),
            clip_value,
            dict(parts.memory.settings)["lookup"],
        )
        assert largest_relative_error(unrolled.outputs, outputs) < 1e-12
        if parts.controller != "feed-forward":
            assert largest_relative_error(unrolled.cell_states, cells) < 1e-12
            inside = unrolled.internals
            assert largest_relative_error(inside.uncompressed_cell_state, raw) < 1e-12


def test_forget_bias_raises_the_forget_gate():
    with jax.enable_x64(True):
        plain, biased = (
            small_dnc("compr", ModelConfig(5, 3, 2, 4, forget_bias=bias)) for bias in (0.0, 1.5)
        )
        bias = plain.controller.bias.at[4:8].add(1.5)
        by_hand = eqx.tree_at(lambda m: m.controller.bias, plain, bias)
        inputs = random_inputs(4, 2)
        np.testing.assert_allclose(
            by_hand.unroll(inputs).outputs, biased.unroll(inputs).outputs, rtol=1e-12
        )


@pytest.mark.parametrize("approach", [*NETWORKS, "compr+reg+used"])
def test_gradients_agree_with_finite_differences(approach):
    """Along random directions through all parameters and the inputs, in float64."""
    with jax.enable_x64(True):
        model, inputs = small_dnc(approach), random_inputs(6, 2)
        rng = np.random.default_rng(1)
        batch = SimpleNamespace(
            targets=jnp.asarray(rng.normal(size=(6, 2, 2))),
            mask=jnp.asarray(rng.random((6, 2)) < 0.7),
            num_steps=jnp.array([6, 4]),
        )

        # The rule "no gradient through the write weights" of the usage has no finite difference:
        # freeze these weights at their values, and both must agree.
        frozen = model.unroll(inputs, internals=True).internals.memory.write_weights

        def loss(both: tuple[DNC, jax.Array], frozen: jax.Array | None):
            if frozen is None:
                run = both[0].unroll(both[1])
            else:
                run = Unrolled(*unroll_with_frozen_usage(both[0], both[1], frozen))
            return total_loss(run, batch, "squared error", both[0].constraints)[0]

        gradient = eqx.filter_jit(eqx.filter_grad(loss))((model, inputs), None)
        compiled = eqx.filter_jit(loss)
        assert_slopes_agree(lambda both: compiled(both, frozen), (model, inputs), gradient, rng)


@st.composite
def interfaces(draw):
    """A run of random, at times saturated, interface vectors."""
    num_reads, word_size, memory_size = draw(
        st.sampled_from([(1, 1, 1), (1, 4, 2), (2, 3, 5), (3, 1, 9)])
    )
    scale = draw(st.sampled_from([0.0, 1.0, 10.0, 1e3]))
    seed = draw(st.integers(0, 2**32 - 1))
    lookup = draw(st.sampled_from(sorted(PARTS[LOOKUP])))
    return DNCMemory(memory_size, word_size, num_reads, lookup), scale, seed


@given(interfaces())
@settings(max_examples=30, deadline=None)
def test_laws_of_the_memory_hold(drawn):
    memory, scale, seed = drawn
    rng = np.random.default_rng(seed)
    state = memory.initial_state(jnp.float32)
    step = eqx.filter_jit(memory)
    for _ in range(12):
        xi = rng.normal(size=memory.interface_size) * scale
        state, reads = step(jnp.asarray(xi, jnp.float32), state)
        assert reads.shape == (memory.read_size,)
        check_laws(state)


def check_laws(state: MemoryState, slack: float = 1e-5) -> None:
    for name in ("usage", "precedence", "write_weights", "read_weights", "link"):
        values = np.asarray(getattr(state, name))
        assert np.all(values >= -slack), name
        assert np.all(values <= 1 + slack), name
    for name in ("precedence", "write_weights", "read_weights", "link"):
        assert np.all(np.sum(getattr(state, name), axis=-1) <= 1 + slack), name
    assert np.all(np.sum(state.link, axis=-2) <= 1 + slack)
    assert np.all(np.diagonal(state.link, axis1=-2, axis2=-1) == 0)


@pytest.mark.parametrize("approach", ["compr", "stateful-baseline+used"])
def test_outputs_do_not_depend_on_the_order_of_the_slots(approach):
    """Permuting a distinct memory permutes what follows and leaves the output alone.

    Ties in usage are broken by the index, so the memory must have none.
    """
    with jax.enable_x64(True):
        model, inputs = small_dnc(approach), random_inputs(9, 1)
        state = model.initial_state()
        rng = np.random.default_rng(0)
        noise = MemoryState(
            memory=jnp.asarray(rng.normal(size=(5, 3))),
            usage=jnp.asarray(rng.random(5)),
            link=jnp.asarray(rng.random((5, 5)) / 10 * (1 - np.eye(5))),
            precedence=jnp.asarray(rng.random(5) / 5),
            write_weights=jnp.asarray(rng.random(5) / 5),
            read_weights=jnp.asarray(rng.random((2, 5)) / 5),
        )
        order = np.array([3, 0, 4, 1, 2])
        permuted = MemoryState(
            memory=noise.memory[order],
            usage=noise.usage[order],
            link=noise.link[order][:, order],
            precedence=noise.precedence[order],
            write_weights=noise.write_weights[order],
            read_weights=noise.read_weights[:, order],
        )
        step = eqx.filter_jit(model.step)
        states = [eqx.tree_at(lambda s: s.memory, state, m) for m in (noise, permuted)]
        for t in range(9):
            (y, states[0], _), (y_permuted, states[1], _) = (step(inputs[t, 0], s) for s in states)
            np.testing.assert_allclose(y, y_permuted, rtol=1e-9)
        np.testing.assert_allclose(
            states[0].memory.link[order][:, order], states[1].memory.link, rtol=1e-9
        )


def test_a_spare_slot_changes_only_content_look_up():
    """What is and is not invariant under one more slot (see docs/equations.md).

    With allocation only for writing and no content look-up for reading, while free slots are
    left, one slot more changes nothing but the spare slot's own tiny allocation weight. Content
    look-up spreads over every slot, so with it the outputs do change.
    """
    with jax.enable_x64(True):
        model, inputs = small_dnc("compr"), random_inputs(4, 2)
        num_reads = 2
        modes = model.interface_bias.shape[0] - 3 * num_reads
        bias = model.interface_bias
        bias = bias.at[modes - 2].set(60.0)  # allocation gate
        bias = bias.at[modes - 1].set(60.0)  # write gate
        bias = bias.at[modes + 2 :: 3].set(-60.0)  # content mode
        weight = model.interface_weight.at[modes - 2 :].set(0.0)
        sequential = eqx.tree_at(
            lambda m: (m.interface_weight, m.interface_bias), model, (weight, bias)
        )
        few, more = (sequential.with_memory_size(n).unroll(inputs).outputs for n in (6, 7))
        np.testing.assert_allclose(few, more, atol=1e-5)
        few, more = (model.with_memory_size(n).unroll(inputs).outputs for n in (6, 7))
        assert np.max(np.abs(few - more)) > 1e-3


@pytest.mark.parametrize(
    "approach", ["stateful-baseline", "stateless-baseline", "compr", "stateful-baseline+used"]
)
def test_stays_finite_for_2000_steps_of_large_inputs_and_saturated_gates(approach):
    config = ModelConfig(memory_size=9, word_size=4, num_reads=2, hidden_size=8)
    model = small_dnc(approach, config, scale=6.0, seed=3)
    inputs = random_inputs(2000, 2, seed=4, scale=100.0)

    def loss(model):
        unrolled = model.unroll(inputs)
        states = jnp.mean(unrolled.cell_states**2) if unrolled.cell_states.size else 0.0
        return jnp.mean(unrolled.outputs**2) + states

    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss))(model)
    assert np.isfinite(value)
    for leaf in jax.tree.leaves(gradient):
        assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("approach", ["stateless-baseline", "compr"])
def test_runs_in_jit_grad_vmap_and_checkpoint(approach):
    inputs = random_inputs(3, 2)

    def build(seed):
        return build_dnc(APPROACHES[approach], SIZES, SMALL, key=jax.random.key(seed))

    ensemble = eqx.filter_vmap(build)(jnp.arange(3))

    @eqx.filter_jit
    @eqx.filter_vmap(in_axes=(eqx.if_array(0), None))
    @eqx.filter_grad
    def gradients(model, inputs):
        run = jax.checkpoint(lambda x: model.unroll(x).outputs)
        return jnp.mean(run(inputs) ** 2)

    together = gradients(ensemble, inputs)
    alone = eqx.filter_grad(lambda m: jnp.mean(m.unroll(inputs).outputs ** 2))(build(2))
    for many, one in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(many[2], one, rtol=1e-4, atol=1e-6)


def test_internals_have_time_and_batch_first():
    model = small_dnc("compr")
    inside = model.unroll(random_inputs(6, 2), internals=True).internals
    assert inside.memory.link.shape == (6, 2, 5, 5)
    assert inside.memory.memory.shape == (6, 2, 5, 3)
    assert inside.interface.read_modes.shape == (6, 2, 2, 3)
    assert inside.interface.allocation_gate.shape == (6, 2)
    np.testing.assert_allclose(
        np.tanh(inside.uncompressed_cell_state), inside.cell_state, rtol=1e-6
    )


def test_a_state_of_another_kind_is_refused():
    model, inputs = small_dnc("compr"), random_inputs(3, 2)
    state = model.unroll(inputs).state
    with pytest.raises(SettingError, match="the state must be"):
        model.with_memory_size(9).unroll(inputs, state=state)
    with pytest.raises(SettingError, match="a growing memory cannot continue from a state"):
        model.with_memory_size(Growing(5)).unroll(inputs, state=state)
    with pytest.raises(SettingError, match=r"the state must be .*\(1, 4\).*, not .*\(2, 4\)"):
        model.unroll(inputs[:, :1], state=state)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (np.zeros((4, 2, 7), np.float32), r"must be \(time, batch, 3\).*, not \(4, 2, 7\)"),
        (np.zeros((0, 2, 3), np.float32), "none of them 0"),
        (np.zeros((4, 2, 3), np.int32), "dtype of inputs must be float32"),
        (np.zeros((4, 2, 3), ">f4"), "dtype of inputs must be float32.*, not '>f4'"),
        (np.zeros((4, 2, 3), object), "dtype of inputs must be float32.*, not 'object'"),
        (np.zeros((4, 2, 3), "U1"), "dtype of inputs must be float32.*, not '<U1'"),
    ],
)
def test_bad_inputs_are_refused_in_one_sentence(inputs, sentence):
    with pytest.raises(SettingError, match=sentence):
        small_dnc("compr").check_inputs(inputs)
