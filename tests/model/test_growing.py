"""A growing memory against a plain one, and against the rule written again in loops."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from constrained_dnc.approaches import APPROACHES, get_approach
from constrained_dnc.errors import BadSetting, RunProblem
from constrained_dnc.model.backend import PureBackend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.growing import Growing
from constrained_dnc.tasks.registry import get_task

SIZES = ModelConfig(memory_size=5, word_size=4, num_reads=2, hidden_size=8)


def model_of(approach: str, seed: int = 0):
    """A model whose parameters are large enough for gates that open and close."""
    model = build_dnc(get_approach(approach), get_task("copy"), SIZES, key=jax.random.key(seed))
    return jax.tree.map(lambda leaf: 3 * leaf if eqx.is_inexact_array(leaf) else leaf, model)


def inputs_of(steps: int, batch: int = 3, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(steps, batch, 2)).astype(np.float32)


@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg", "compr+reg+used"])
def test_slots_follow_the_rule(approach):
    """Usages tell how much is free at every step; the rest is arithmetic."""
    growing = Growing(start=5, free_capacity=3.5)
    run = model_of(approach).unroll(inputs_of(20), growing, internals=True)
    usage = np.asarray(run.internals.memory.usage, np.float64)
    slots = np.asarray(run.internals.memory.slots)
    assert usage.shape[-1] == growing.capacity(20) == 25
    for sample in range(3):
        there = 5
        for step in range(20):
            free = there - usage[step, sample, :there].sum()
            assert abs(free - 3.5 - round(free - 3.5)) > 1e-5  # no tie that rounding decides
            there += max(0, int(np.ceil(3.5 - free)))
            assert slots[step, sample] == there
            assert there - usage[step, sample, :there].sum() >= 3.5
    assert slots.max() > 5
    np.testing.assert_array_equal(slots[-1], run.state.memory.slots)


@pytest.mark.parametrize("approach", ["stateful-baseline", "compr+reg", "compr+reg+used"])
def test_slots_that_are_not_there_take_part_in_nothing(approach):
    run = model_of(approach).unroll(inputs_of(20), Growing(5, 3.5), internals=True).internals.memory
    absent = np.arange(25) >= np.asarray(run.slots)[..., None]
    for weights in (
        run.write_weights,
        run.usage,
        run.precedence,
        *np.moveaxis(run.read_weights, 2, 0),
    ):
        assert not np.asarray(weights)[absent].any()
    assert not np.asarray(run.memory)[absent].any()
    assert not np.asarray(run.link)[absent].any()


@pytest.mark.parametrize(
    "approach", ["stateful-baseline", "stateless-baseline", "compr+reg", "compr+reg+used"]
)
def test_an_input_that_fits_is_answered_as_by_the_memory_of_the_start(approach):
    model, inputs = model_of(approach), inputs_of(6)
    plain, grown = model.unroll(inputs, 9), model.unroll(inputs, Growing(9, 0.0))
    np.testing.assert_array_equal(grown.state.memory.slots, 9)
    np.testing.assert_allclose(grown.outputs, plain.outputs, rtol=1e-4, atol=1e-5)


def test_a_memory_that_needs_all_it_has_is_as_large_as_a_plain_one_from_then_on():
    """Slots that come before anything is written are slots from the start."""
    model, inputs = model_of("stateful-baseline"), inputs_of(6)
    grown = model.unroll(inputs, Growing(8, 8.0), internals=True)
    first = int(grown.internals.memory.slots[1, 0])
    assert first == 9  # something was written, so one more
    alone = model.unroll(inputs[:1], Growing(8, 8.0))
    np.testing.assert_allclose(alone.outputs, model.unroll(inputs[:1], 8).outputs, atol=1e-6)


def test_a_sample_does_not_depend_on_the_rest_of_the_batch():
    model = model_of("compr+reg")
    inputs = inputs_of(16, batch=4)
    inputs[:, 0] = 0  # asks for less
    together = model.unroll(inputs, Growing(5, 4.0))
    assert len(set(np.asarray(together.state.memory.slots).tolist())) > 1
    for sample in range(4):
        alone = model.unroll(inputs[:, sample : sample + 1], Growing(5, 4.0))
        np.testing.assert_allclose(
            together.outputs[:, sample], alone.outputs[:, 0], rtol=1e-4, atol=1e-5
        )


def test_one_slot_and_a_full_memory():
    model, inputs = model_of("stateful-baseline"), inputs_of(12)
    full = model.unroll(inputs, Growing(1, 0.0))
    np.testing.assert_array_equal(full.state.memory.slots, 1)
    np.testing.assert_allclose(full.outputs, model.unroll(inputs, 1).outputs, atol=1e-5)
    grown = model.unroll(inputs, Growing(1, 1.0))
    assert np.asarray(grown.state.memory.slots).min() > 1
    assert np.isfinite(grown.outputs).all()


def test_the_limit_is_refused_in_one_sentence():
    model, inputs = model_of("stateful-baseline"), inputs_of(20)
    backend = PureBackend("squared error", None, 5)
    needed = int(model.unroll(inputs, Growing(5, 5.0)).state.memory.slots.max())
    enough = backend.forward(model, inputs, Growing(5, 5.0, limit=needed))
    np.testing.assert_allclose(
        enough.outputs, model.unroll(inputs, Growing(5, 5.0)).outputs, atol=1e-5
    )
    with pytest.raises(RunProblem, match=f"needs more than {needed - 1} slots"):
        backend.forward(model, inputs, Growing(5, 5.0, limit=needed - 1))


def test_float64_and_vmap():
    with jax.enable_x64(True):
        model = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf,
            model_of("compr+reg"),
        )
        inputs = jnp.asarray(inputs_of(12, batch=4), jnp.float64).reshape(12, 2, 2, 2)
        unroll = jax.vmap(lambda part: model.unroll(part, Growing(5, 4.0)).outputs, 1, 1)
        whole = model.unroll(inputs.reshape(12, 4, 2), Growing(5, 4.0)).outputs
        np.testing.assert_allclose(unroll(inputs).reshape(whole.shape), whole, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        ({"start": 0}, "start"),
        ({"free_capacity": 6.0}, "free_capacity"),
        ({"free_capacity": -1.0}, "free_capacity"),
        ({"free_capacity": float("nan")}, "free_capacity"),
        ({"limit": 4}, "limit"),
    ],
)
def test_bad_settings_are_refused(wrong, setting):
    with pytest.raises(BadSetting, match=f"^memory_size.{setting} is "):
        Growing(**{"start": 5, "free_capacity": 2.0, **wrong})


def test_every_approach_grows():
    for name in APPROACHES:
        outputs = model_of(name).unroll(inputs_of(4, batch=1), Growing(5, 5.0)).outputs
        assert np.isfinite(outputs).all()
