"""A growing memory against a plain one, and against the rule written again in loops."""

from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fused_runs import compiled

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.model import fused
from constrained_dnc.model.backend import FusedBackend, PureBackend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.dnc_memory import interface_parts
from constrained_dnc.model.growing import Growing
from constrained_dnc.parts import get_approach
from constrained_dnc.tasks.registry import get_task

SIZES = ModelConfig(memory_size=5, word_size=4, num_reads=2, hidden_size=8)


def model_of(approach: str, seed: int = 0):
    """A model whose parameters are large enough for gates that open and close."""
    model = build_dnc(get_approach(approach), get_task("copy"), SIZES, key=jax.random.key(seed))
    return jax.tree.map(lambda leaf: 3 * leaf if eqx.is_inexact_array(leaf) else leaf, model)


def hoarder_of(approach: str):
    """A model that writes to free slots, at some steps hardly, and frees few."""
    model = model_of(approach)
    sizes = interface_parts(model.memory.num_reads, model.memory.word_size)
    starts = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
    bias = model.interface_bias.at[starts["free_gates"] : starts["allocation_gate"]].add(-6)
    bias = bias.at[starts["allocation_gate"]].add(6)
    weight = model.interface_weight.at[starts["write_gate"]].multiply(8)
    parts = (bias, weight)
    return eqx.tree_at(lambda model: (model.interface_bias, model.interface_weight), model, parts)


def inputs_of(steps: int, batch: int = 3, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(steps, batch, 2)).astype(np.float32)


@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg", "compr+reg+used"])
def test_slots_follow_the_rule_and_absent_ones_stay_empty(approach):
    growing = Growing(start=3)
    run = hoarder_of(approach).with_memory_size(growing).unroll(inputs_of(20), internals=True)
    usage = np.asarray(run.internals.memory.usage)
    slots = np.asarray(run.internals.memory.slots)
    assert usage.shape[-1] == growing.capacity(20) == 40
    for sample in range(3):
        exist = 3
        for step in range(20):
            in_use = sum(u > 0.05 for u in usage[step, sample])
            exist = max(exist, 2 * min(in_use, step))
            assert slots[step, sample] == exist
    assert slots.max() > 10
    np.testing.assert_array_equal(slots[-1], run.state.memory.slots)
    memory, absent = run.internals.memory, np.arange(40) >= slots[..., None]
    heads = np.moveaxis(np.asarray(memory.read_weights), 2, 0)
    for values in (memory.memory, memory.link, memory.precedence, memory.write_weights, *heads):
        assert not np.asarray(values)[absent].any()
    assert not usage[absent].any()


@pytest.mark.parametrize("approach", ["stateless-baseline", "compr+reg", "compr+reg+used"])
def test_an_input_that_fits_is_answered_as_by_the_memory_of_the_start(approach):
    model, inputs = model_of(approach), inputs_of(5)
    plain, grown = (
        model.with_memory_size(9).unroll(inputs),
        model.with_memory_size(Growing(9)).unroll(inputs),
    )
    np.testing.assert_array_equal(grown.state.memory.slots, 9)
    np.testing.assert_allclose(grown.outputs, plain.outputs, rtol=1e-4, atol=1e-5)


def test_a_sample_does_not_depend_on_the_rest_of_the_batch():
    model = hoarder_of("compr+reg").with_memory_size(Growing(5))
    inputs = inputs_of(16, batch=4)
    together = model.unroll(inputs)
    assert len(set(np.asarray(together.state.memory.slots).tolist())) > 1
    for sample in range(4):
        alone = model.unroll(inputs[:, sample : sample + 1])
        np.testing.assert_allclose(
            together.outputs[:, sample], alone.outputs[:, 0], rtol=1e-4, atol=1e-5
        )


def test_one_slot_grows():
    grown = hoarder_of("stateful-baseline").with_memory_size(Growing(1)).unroll(inputs_of(12))
    assert np.asarray(grown.state.memory.slots).min() > 1
    assert np.isfinite(grown.outputs).all()


@pytest.mark.parametrize(
    "backend",
    [PureBackend("squared error"), pytest.param(None, marks=compiled)],
    ids=["pure", "fused"],
)
def test_the_limit_is_refused_in_one_sentence(backend):
    model, inputs = hoarder_of("stateful-baseline"), inputs_of(20)
    backend = backend or FusedBackend("squared error")
    free = model.with_memory_size(Growing(5)).unroll(inputs)
    needed = int(free.state.memory.slots.max())
    enough = model.with_memory_size(Growing(5, limit=needed))
    np.testing.assert_allclose(
        backend.forward(enough, inputs, keep_state=False).outputs,
        free.outputs,
        rtol=1e-4,
        atol=1e-5,
    )
    with pytest.raises(RunError, match=f"needs more than {needed - 1} slots"):
        backend.forward(model.with_memory_size(Growing(5, limit=needed - 1)), inputs)
    again = backend.forward(enough, inputs, keep_state=False)
    np.testing.assert_allclose(again.outputs, free.outputs, rtol=1e-4, atol=1e-5)


def test_float64_and_vmap():
    with jax.enable_x64(True):
        model = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf,
            model_of("compr+reg"),
        )
        inputs = jnp.asarray(inputs_of(12, batch=4), jnp.float64).reshape(12, 2, 2, 2)
        unroll = jax.vmap(
            lambda part: model.with_memory_size(Growing(5)).unroll(part).outputs, 1, 1
        )
        whole = model.with_memory_size(Growing(5)).unroll(inputs.reshape(12, 4, 2)).outputs
        np.testing.assert_allclose(unroll(inputs).reshape(whole.shape), whole, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [({"start": 0}, "start"), ({"limit": 4}, "limit")],
)
def test_bad_settings_are_refused(wrong, setting):
    with pytest.raises(SettingError, match=f"^memory_size.{setting} must be "):
        Growing(**{"start": 5, **wrong})


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg", "compr+reg+used"])
@pytest.mark.parametrize("start", [1, 5])
def test_the_kernel_grows_as_the_pure_model(approach, start):
    """Growth in the middle: some samples at some steps, with vectors of slots filled and not."""
    model, inputs = hoarder_of(approach).with_memory_size(Growing(start)), inputs_of(40)
    run = model.unroll(inputs, internals=True)
    slots = np.asarray(run.internals.memory.slots)
    assert len(np.unique(slots)) > 10
    assert slots.max() > 16
    for simd in fused.simd_levels():
        for threads in (1, 2):
            ours = fused.FusedUnroll(threads, simd).forward(model, inputs)
            np.testing.assert_array_equal(ours.slots, slots)
            np.testing.assert_allclose(ours.outputs, run.outputs, rtol=1e-4, atol=1e-5)


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg+used"])
def test_in_the_kernel_an_input_that_fits_keeps_every_bit(approach):
    model, inputs = model_of(approach), inputs_of(6)
    kernel = fused.FusedUnroll()
    for size in (10, 40):
        grown, plain = (
            kernel.forward(model.with_memory_size(n), inputs) for n in (Growing(size), size)
        )
        np.testing.assert_array_equal(grown.slots, size)
        np.testing.assert_array_equal(grown.outputs, plain.outputs)


@compiled
def test_in_the_kernel_a_sample_does_not_see_the_growth_of_others():
    model, inputs = hoarder_of("stateful-baseline").with_memory_size(Growing(12)), inputs_of(40, 4)
    kernel = fused.FusedUnroll(2)
    together = kernel.forward(model, inputs)
    assert len(np.unique(together.slots[-1])) > 1
    for k in range(4):
        alone = kernel.forward(model, inputs[:, [k]])
        np.testing.assert_array_equal(together.outputs[:, [k]], alone.outputs)


@compiled
def test_the_kernel_has_no_gradient_of_a_growing_memory():
    model = model_of("stateful-baseline").with_memory_size(Growing(5))
    with pytest.raises(SettingError, match="a growing memory has neither a gradient"):
        fused.FusedUnroll().forward(model, inputs_of(20), keep=True)
