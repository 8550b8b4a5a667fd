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
    """A model that mostly writes to free slots and frees few."""
    model = model_of(approach)
    sizes = interface_parts(model.memory.num_reads, model.memory.word_size)
    starts = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
    bias = model.interface_bias.at[starts["free_gates"] : starts["allocation_gate"]].add(-6)
    bias = bias.at[starts["allocation_gate"] : starts["read_modes"]].add(6)
    return eqx.tree_at(lambda model: model.interface_bias, model, bias)


def inputs_of(steps: int, batch: int = 3, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(steps, batch, 2)).astype(np.float32)


@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg", "compr+reg+used"])
def test_slots_follow_the_rule_and_absent_ones_stay_empty(approach):
    """Usages tell how much is free at every step; the rest is arithmetic."""
    growing = Growing(start=5, free_capacity=3.5)
    run = model_of(approach).with_memory_size(growing).unroll(inputs_of(20), internals=True)
    usage = np.asarray(run.internals.memory.usage, np.float64)
    slots = np.asarray(run.internals.memory.slots)
    assert usage.shape[-1] == growing.capacity(20) == 25
    for sample in range(3):
        exist = 5
        for step in range(20):
            free = exist - usage[step, sample, :exist].sum()
            assert abs(free - 3.5 - round(free - 3.5)) > 1e-5  # no tie that rounding decides
            exist += max(0, int(np.ceil(3.5 - free)))
            assert slots[step, sample] == exist
            assert exist - usage[step, sample, :exist].sum() >= 3.5
    assert slots.max() > 5
    np.testing.assert_array_equal(slots[-1], run.state.memory.slots)
    memory, absent = run.internals.memory, np.arange(25) >= slots[..., None]
    heads = np.moveaxis(np.asarray(memory.read_weights), 2, 0)
    for values in (memory.memory, memory.link, memory.precedence, memory.write_weights, *heads):
        assert not np.asarray(values)[absent].any()
    assert not usage[absent].any()


@pytest.mark.parametrize("approach", ["stateless-baseline", "compr+reg", "compr+reg+used"])
def test_an_input_that_fits_is_answered_as_by_the_memory_of_the_start(approach):
    model, inputs = model_of(approach), inputs_of(6)
    plain, grown = (
        model.with_memory_size(9).unroll(inputs),
        model.with_memory_size(Growing(9, 0.0)).unroll(inputs),
    )
    np.testing.assert_array_equal(grown.state.memory.slots, 9)
    np.testing.assert_allclose(grown.outputs, plain.outputs, rtol=1e-4, atol=1e-5)


def test_a_sample_does_not_depend_on_the_rest_of_the_batch():
    model = model_of("compr+reg")
    inputs = inputs_of(16, batch=4)
    inputs[:, 0] = 0  # asks for less
    together = model.with_memory_size(Growing(5, 4.0)).unroll(inputs)
    assert len(set(np.asarray(together.state.memory.slots).tolist())) > 1
    for sample in range(4):
        alone = model.with_memory_size(Growing(5, 4.0)).unroll(inputs[:, sample : sample + 1])
        np.testing.assert_allclose(
            together.outputs[:, sample], alone.outputs[:, 0], rtol=1e-4, atol=1e-5
        )


def test_one_slot_and_a_full_memory():
    model, inputs = model_of("stateful-baseline"), inputs_of(12)
    full = model.with_memory_size(Growing(1, 0.0)).unroll(inputs)
    np.testing.assert_array_equal(full.state.memory.slots, 1)
    np.testing.assert_allclose(
        full.outputs, model.with_memory_size(1).unroll(inputs).outputs, atol=1e-5
    )
    grown = model.with_memory_size(Growing(1, 1.0)).unroll(inputs)
    assert np.asarray(grown.state.memory.slots).min() > 1
    assert np.isfinite(grown.outputs).all()


def test_the_limit_is_refused_in_one_sentence():
    model, inputs = model_of("stateful-baseline"), inputs_of(20)
    backend = PureBackend("squared error")
    needed = int(model.with_memory_size(Growing(5, 5.0)).unroll(inputs).state.memory.slots.max())
    enough = backend.forward(model.with_memory_size(Growing(5, 5.0, limit=needed)), inputs)
    np.testing.assert_allclose(
        enough.outputs, model.with_memory_size(Growing(5, 5.0)).unroll(inputs).outputs, atol=1e-5
    )
    with pytest.raises(RunError, match=f"needs more than {needed - 1} slots"):
        backend.forward(model.with_memory_size(Growing(5, 5.0, limit=needed - 1)), inputs)


def test_float64_and_vmap():
    with jax.enable_x64(True):
        model = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf,
            model_of("compr+reg"),
        )
        inputs = jnp.asarray(inputs_of(12, batch=4), jnp.float64).reshape(12, 2, 2, 2)
        unroll = jax.vmap(
            lambda part: model.with_memory_size(Growing(5, 4.0)).unroll(part).outputs, 1, 1
        )
        whole = model.with_memory_size(Growing(5, 4.0)).unroll(inputs.reshape(12, 4, 2)).outputs
        np.testing.assert_allclose(unroll(inputs).reshape(whole.shape), whole, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        ({"start": 0}, "start"),
        ({"free_capacity": 6.0}, "free_capacity"),
        ({"limit": 4}, "limit"),
    ],
)
def test_bad_settings_are_refused(wrong, setting):
    with pytest.raises(SettingError, match=f"^memory_size.{setting} must be "):
        Growing(**{"start": 5, "free_capacity": 2.0, **wrong})


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg", "compr+reg+used"])
@pytest.mark.parametrize(("start", "free_capacity"), [(1, 1.0), (5, 3.5)])
def test_the_kernel_grows_as_the_pure_model(approach, start, free_capacity):
    """Growth in the middle: some samples at some steps, with vectors of slots filled and not."""
    model, inputs = hoarder_of(approach), inputs_of(20)
    growing = Growing(start, free_capacity)
    run = model.with_memory_size(growing).unroll(inputs, internals=True)
    slots = np.asarray(run.internals.memory.slots)
    assert len(np.unique(slots)) > 10
    assert slots.max() > 16
    for simd in fused.simd_levels():
        for threads in (1, 2):
            ours = fused.FusedUnroll(threads, simd).forward(model.with_memory_size(growing), inputs)
            np.testing.assert_array_equal(ours.slots, slots)
            np.testing.assert_allclose(ours.outputs, run.outputs, rtol=1e-4, atol=1e-5)


@compiled
@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg+used"])
def test_in_the_kernel_an_input_that_fits_keeps_every_bit(approach):
    model, inputs = model_of(approach), inputs_of(6)
    kernel = fused.FusedUnroll()
    for size in (1, 9, 40):
        grown, plain = (
            kernel.forward(model.with_memory_size(n), inputs) for n in (Growing(size, 0.0), size)
        )
        np.testing.assert_array_equal(grown.slots, size)
        np.testing.assert_array_equal(grown.outputs, plain.outputs)


@compiled
def test_in_the_kernel_a_sample_does_not_see_the_growth_of_others():
    """Only one sample of the batch needs more slots; the others keep every bit."""
    model, inputs = model_of("stateful-baseline"), inputs_of(40, batch=4)
    kernel = fused.FusedUnroll(2)
    for free_capacity in np.linspace(0, 5, 51):
        together = kernel.forward(model.with_memory_size(Growing(5, float(free_capacity))), inputs)
        if np.sum(together.slots[-1] > 5) == 1:
            break
    assert np.sum(together.slots[-1] > 5) == 1
    plain = kernel.forward(model, inputs)
    for k in range(4):
        growing = model.with_memory_size(Growing(5, float(free_capacity)))
        alone = kernel.forward(growing, inputs[:, [k]])
        np.testing.assert_array_equal(together.outputs[:, [k]], alone.outputs)
        grew = together.slots[-1, k] > 5
        assert np.array_equal(together.outputs[:, k], plain.outputs[:, k]) != grew


@compiled
def test_the_kernel_refuses_what_it_cannot_grow():
    model, inputs = model_of("stateful-baseline"), inputs_of(20)
    backend = FusedBackend("squared error")
    needed = int(
        fused.FusedUnroll().forward(model.with_memory_size(Growing(5, 5.0)), inputs).slots.max()
    )
    enough = backend.forward(model.with_memory_size(Growing(5, 5.0, limit=needed)), inputs)
    with pytest.raises(RunError, match=f"needs more than {needed - 1} slots"):
        backend.forward(model.with_memory_size(Growing(5, 5.0, limit=needed - 1)), inputs)
    with pytest.raises(SettingError, match="a growing memory has neither a gradient"):
        fused.FusedUnroll().forward(model.with_memory_size(Growing(5, 5.0)), inputs, keep=True)
    again = backend.forward(model.with_memory_size(Growing(5, 5.0, limit=needed)), inputs)
    np.testing.assert_array_equal(again.outputs, enough.outputs)
