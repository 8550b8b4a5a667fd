"""Constraints on the cell state: built-in and user-defined, alone and in a model."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from builders import SMALL, random_inputs
from fused_runs import compiled

from constrained_dnc.errors import SettingError
from constrained_dnc.model.backend import choose_backend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.constraints import AbstractConstraint, Rounding
from constrained_dnc.model.controllers import AbstractController, ControllerStep
from constrained_dnc.model.leaves import named_leaves
from constrained_dnc.model.losses import total_loss
from constrained_dnc.parts import CONSTRAINTS, PARTS, Approach, Part, parse_part
from constrained_dnc.tasks.registry import get_task

TASK = get_task("copy")


class Scale(AbstractConstraint):
    """User-defined, with a trainable array."""

    factor: jax.Array

    def __init__(self, start: float = 0.5):
        self.factor = jnp.asarray(start)

    def carry(self, cell, key):
        return self.factor * cell


class Sparse(AbstractConstraint):
    """User-defined, with a loss only."""

    weight: float = eqx.field(static=True, default=0.1)

    def loss(self, before, carried, num_steps):
        return jnp.mean(jnp.abs(carried), axis=(0, 2))

    def total(self, loss, own):
        return loss + self.weight * own


class Leaky(AbstractController):
    """User-defined, with a state of two arrays of which one is the cell state."""

    weight: jax.Array
    hidden_size: int = eqx.field(static=True)

    def __init__(self, input_size, hidden_size, *, key, gain=1.0, forget_bias=7.0):
        self.weight = gain * jax.random.normal(key, (hidden_size, input_size)) + forget_bias
        self.hidden_size = hidden_size

    def initial_state(self):
        return {"cell": jnp.ones(self.hidden_size), "steps": jnp.zeros(1)}

    def __call__(self, inputs, state):
        cell = state["cell"] + self.weight @ inputs
        return ControllerStep(jnp.sin(cell), {"cell": cell, "steps": state["steps"] + 1})

    def cell_state(self, state):
        return state["cell"]


class Replacing(Leaky):
    def with_cell_state(self, state, cell):
        return state | {"cell": cell}


def model_of(*parts, controller="lstm"):
    approach = Approach("x", controller, tuple(map(parse_part, parts)))
    return build_dnc(approach, TASK, SMALL, key=jax.random.key(0))


def own(name: str) -> str:
    return f"{__file__}:{name}"


def test_every_built_in_kind_has_a_class_with_its_settings():
    for kind in PARTS[CONSTRAINTS]:
        (constraint,) = model_of(kind).constraints
        assert {name: getattr(constraint, name) for name, _ in Part(kind).settings} == dict(
            Part(kind).settings
        )
        assert constraint.changes_state != constraint.has_loss
        assert model_of(kind).uses_key == (kind == "noise")


def test_rounding_has_levels_and_lets_the_gradient_through():
    cells = jnp.linspace(-1.5, 1.5, 12)
    rounded = Rounding(3).carry(cells, None)
    np.testing.assert_array_equal(rounded, [-1] * 4 + [0] * 4 + [1] * 4)
    assert set(np.asarray(Rounding(5).carry(cells, None)).tolist()) == {-1, -0.5, 0, 0.5, 1}
    slopes = jax.grad(lambda cells: jnp.sum(cells * Rounding(3).carry(cells, None)))(cells)
    np.testing.assert_allclose(slopes, cells + rounded, rtol=1e-6)


def test_noise_is_of_every_sample_step_and_key_and_only_in_training():
    model, inputs = model_of("noise,sigma=0.3"), jnp.zeros((200, 3, TASK.input_size))

    def noise(key):
        inside = model.unroll(inputs, internals=True, key=key).internals
        return np.asarray(inside.cell_state - inside.uncompressed_cell_state)

    assert not noise(None).any()
    one, other = noise(jax.random.key(0)), noise(jax.random.key(1))
    np.testing.assert_array_equal(one, noise(jax.random.key(0)))
    for drawn in (one, other):
        assert abs(drawn.mean()) < 0.03
        assert drawn.std() == pytest.approx(0.3, rel=0.05)
    flat = [one[:, 0].ravel(), one[:, 1].ravel(), one[::-1, 0].ravel(), other[:, 0].ravel()]
    assert np.abs(np.corrcoef(flat) - np.eye(4)).max() < 0.15


def test_constraints_are_applied_in_their_order_before_clipping():
    inputs = random_inputs(5, 2)[..., : TASK.input_size]
    for parts, change in {
        ("compression", own("Scale")): lambda cell: 0.5 * np.tanh(cell),
        (own("Scale"), "compression"): lambda cell: np.tanh(0.5 * cell),
        ("regularisation", "compression", "rounding"): lambda cell: np.round(np.tanh(cell)),
        (f"{own('Scale')},start=100",): lambda cell: np.clip(100 * cell, -20, 20),
    }.items():
        inside = model_of(*parts).unroll(inputs, internals=True).internals
        np.testing.assert_allclose(
            inside.cell_state, change(np.asarray(inside.uncompressed_cell_state)), atol=1e-6
        )


def test_compression_of_any_controller():
    """h = o tanh(c~) shares its tanh with the carried state; a user's controller has no such."""
    inputs = random_inputs(4, 2)[..., : TASK.input_size]
    for controller in (own("Replacing"), "peephole"):
        inside = model_of("compression", controller=controller).unroll(inputs, internals=True)
        np.testing.assert_allclose(
            inside.cell_states, np.tanh(inside.internals.uncompressed_cell_state), rtol=1e-6
        )
    model = model_of("compression", controller=own("Leaky"))
    with pytest.raises(SettingError, match=r"Leaky must define with_cell_state"):
        model.unroll(inputs)
    assert model_of("regularisation", controller=own("Leaky")).unroll(inputs).cell_states.any()


def test_arrays_of_a_constraint_are_trained_and_named():
    model = model_of(f"{own('Scale')},start=0.25", "regularisation")
    # a constant interface: the usage passes on no gradient of the write weights
    constant = 0 * model.interface_weight
    model = eqx.tree_at(lambda model: model.interface_weight, model, constant)
    names = dict(named_leaves(model))
    assert names["constraints.0.factor"] == 0.25
    backend = choose_backend("auto", model, TASK.loss)
    assert "fused has no constraint Scale on the cell state" in backend.reason
    batch = TASK.sample(0, 4, 3)
    loss, parts, gradient = backend.value_and_grad(model, batch)
    assert set(parts) == {"task_loss", "state_loss"}

    def moved(by):
        factor = model.constraints[0].factor + by
        other = eqx.tree_at(lambda model: model.constraints[0].factor, model, factor)
        return backend.value_and_grad(other, batch)[0]

    slope = (moved(0.01) - moved(-0.01)) / 0.02
    np.testing.assert_allclose(gradient.constraints[0].factor, slope, rtol=0.02)
    assert np.isfinite(loss)


@compiled
@pytest.mark.parametrize("part", ["Sparse,weight=0.3", "Centres"])
def test_a_loss_on_carried_states_runs_on_the_kernel(part):
    model, batch = model_of("compression", own(part)), TASK.sample(0, 4, 3)
    assert choose_backend("auto", model, TASK.loss).name == "fused"
    results = []
    for name in ("fused", "pure"):
        loss, parts, gradient = choose_backend(name, model, TASK.loss).value_and_grad(model, batch)
        if "sparse_loss" in parts:
            total = parts["task_loss"] + 0.3 * parts["sparse_loss"]
            np.testing.assert_allclose(loss, total, rtol=1e-6)
        assert jax.tree.structure(gradient) == jax.tree.structure(model)
        results.append([loss, *jax.tree.leaves(gradient)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.max(np.abs(theirs)))
        assert np.any(theirs)


@pytest.mark.parametrize("name", ["pure", pytest.param("fused", marks=compiled)])
def test_a_key_reaches_the_constraints_in_training_only(name):
    model, batch = model_of("noise,sigma=0.5"), TASK.sample(0, 4, 3)
    backend = choose_backend(name, model, TASK.loss)
    losses = [
        float(backend.value_and_grad(model, batch, key)[0])
        for key in (None, jax.random.key(0), jax.random.key(0), jax.random.key(1))
    ]
    assert losses[1] == losses[2]
    assert len(set(losses)) == 3
    np.testing.assert_allclose(backend.measure(model, batch)[0], losses[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("regularisation,task_weight=1.5", "task_weight must be a number from 0 to 1, not 1.5"),
        ("regularisation,num_pairs=2.5", "num_pairs must be an integer, not 2.5"),
        ("noise,sigma=loud", "noise.sigma must be a number, not 'loud'"),
        ("noise,sigma=1e999", "noise.sigma must be a number, not inf"),
        ("rounding,levels=1", "rounding.levels must be an integer of at least 2, not 1"),
    ],
)
def test_a_built_in_part_checks_its_values(part, sentence):
    with pytest.raises(SettingError, match=sentence):
        model_of(part)


def test_a_controller_has_settings_and_gets_the_forget_bias_of_the_model():
    plain, weak = (
        model_of(controller=f"{own('Leaky')}{text}").controller for text in ("", ",gain=0.5")
    )
    np.testing.assert_allclose(weak.weight, 0.5 * plain.weight)
    with pytest.raises(SettingError, match="Leaky,gian=1 has no setting 'gian'"):
        model_of(controller=f"{own('Leaky')},gian=1")


def test_settings_that_a_class_does_not_have_are_refused():
    with pytest.raises(SettingError, match="Scale,stop=1 has no setting 'stop'"):
        model_of(f"{own('Scale')},stop=1")
    with pytest.raises(SettingError, match=r"weight of .*Sparse,weight=low must be a number, not"):
        model_of(f"{own('Sparse')},weight=low")
    with pytest.raises(SettingError, match="a class that extends AbstractConstraint"):
        model_of(own("Leaky"))


class WrongCarry(AbstractConstraint):
    def carry(self, cell, key):
        return cell[:-1]


class WrongLoss(AbstractConstraint):
    def loss(self, before, carried, num_steps):
        return jnp.mean(carried**2, axis=(1, 2))


class Broken(AbstractConstraint):
    def carry(self, cell, key):
        return cell.nothing


class Typo(AbstractConstraint):
    def cary(self, cell, key):
        return jnp.tanh(cell)


class AlwaysNoise(AbstractConstraint):
    def carry(self, cell, key):
        return cell + jax.random.normal(key, cell.shape)


class PerUnit(AbstractConstraint):
    rates: jax.Array

    def __init__(self, hidden_size, start=0.5):
        self.rates = jnp.full(hidden_size, start)

    def carry(self, cell, key):
        return self.rates * cell


def test_a_constraint_learns_the_hidden_size():
    assert model_of(f"{own('PerUnit')},start=0.25").constraints[0].rates.shape == (4,)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Typo", r"constraint \S+Typo must define carry, loss or both"),
        ("AlwaysNoise", r"carry of \S+AlwaysNoise with key None, as in evaluation, failed"),
        ("WrongCarry", r"the carry of \S+WrongCarry must have the shape \(4,\), not \(3,\)"),
        ("WrongLoss", r"the loss of \S+WrongLoss must have the shape \(2,\), not \(3,\)"),
        ("Broken", r"carry of \S+Broken failed .*line \d+: AttributeError"),
    ],
)
def test_a_wrong_user_defined_constraint_is_refused_in_a_sentence(name, sentence):
    approach = Approach("wrong", "peephole", (Part(f"{__name__}:{name}"),))
    with pytest.raises(SettingError, match=sentence):
        build_dnc(approach, TASK, SMALL, key=jax.random.key(0))


VQ = f"{Path(__file__).parents[2] / 'examples' / 'vq.py'}:VQ,codes=6"


def codebook_gradient(book, states):
    """Of the mean over samples, steps and units of (book[nearest] - state)^2, in plain NumPy."""
    gradient, flat = np.zeros_like(book), states.reshape(-1, states.shape[-1])
    for state in flat:
        nearest = np.argmin(((book - state) ** 2).sum(-1))
        gradient[nearest] += 2 * (book[nearest] - state) / flat.size
    return gradient


@pytest.mark.parametrize("parts", [(VQ,), ("compression", VQ), (VQ, "noise,sigma=0.1")])
def test_vector_quantisation_moves_its_codes_to_the_states(parts):
    """Its loss sees the states that reach it, not those that are carried, which are codes."""
    model, batch, key = model_of(*parts), TASK.sample(0, 8, 3), jax.random.key(0)
    (index,) = (i for i, each in enumerate(model.constraints) if hasattr(each, "book"))
    backend = choose_backend("auto", model, TASK.loss)
    unroll = eqx.filter_jit(lambda model: model.unroll(batch.inputs, key=key))
    optimiser = optax.sgd(3.0)
    first, predicted, losses = model.constraints[index].book, 0.0, []
    for _ in range(40):
        book, states = model.constraints[index].book, unroll(model).states_before[index]
        predicted -= 3.0 * codebook_gradient(np.asarray(book), np.asarray(states))
        _, parts, gradient = backend.value_and_grad(model, batch, key)
        model = eqx.apply_updates(model, optimiser.update(gradient, optimiser.init(model))[0])
        losses.append(float(parts["vq_loss"]))
    moved = np.asarray(model.constraints[index].book - first)
    assert np.abs(moved).max() > 0.1
    np.testing.assert_allclose(moved, predicted, rtol=1e-3, atol=1e-4)
    assert losses[-1] < 0.5 * losses[0]
    if len(parts) == 1:
        carried = np.asarray(unroll(model).cell_states).reshape(-1, 4)
        distances = np.abs(carried[:, None] - np.asarray(model.constraints[0].book)).max(-1)
        np.testing.assert_allclose(distances.min(-1), 0, atol=1e-6)


def test_a_loss_on_states_before_its_constraint_needs_the_pure_backend():
    model = model_of(own("Contractive"))
    reason = choose_backend("auto", model, TASK.loss).reason
    assert "fused does not return the states before Contractive" in reason


class Contractive(AbstractConstraint):
    """A loss only, on the states before it."""

    def loss(self, before, carried, num_steps):
        return jnp.mean(before**2, axis=(0, 2))


class Centres(AbstractConstraint):
    """A loss only, with a trainable array: the distance from the nearest of two states."""

    centres: jax.Array

    def __init__(self, hidden_size, key):
        self.centres = jax.random.normal(key, (2, hidden_size))

    def loss(self, before, carried, num_steps):
        distances = jnp.sum((carried[:, :, None] - self.centres) ** 2, axis=-1)
        return jnp.mean(jnp.min(distances, axis=-1), axis=0)


class Halved(AbstractConstraint):
    """On the reads: half of each."""

    acts_on = "reads"

    def carry(self, reads, key):
        return reads / 2


class LargeReads(AbstractConstraint):
    """On the reads: a loss on those before it and those that are used."""

    acts_on = "reads"

    def loss(self, before, carried, num_steps):
        return jnp.mean(before**2 + 3 * carried, axis=(0, 2))


def test_a_controller_without_a_state_may_have_its_reads_constrained():
    assert model_of(own("Halved"), controller="feed-forward").constrains_reads
    with pytest.raises(SettingError, match=r"feed-forward controller has no state .* by .*Sparse"):
        model_of(own("Sparse"), controller="feed-forward")


def test_a_constraint_may_act_on_reads_instead_of_states():
    """Half the reads are the same as twice the reads with half of the weights they meet."""
    model = model_of("compression", own("LargeReads"), own("Halved"), controller="peephole")
    inputs, chi = TASK.input_size, TASK.input_size + model.memory.read_size
    half = eqx.tree_at(
        lambda m: (m.controller.weight, m.readout_weight),
        model_of("compression", controller="peephole"),
        (
            model.controller.weight.at[:, inputs:chi].multiply(0.5),
            0.5 * model.readout_weight,
        ),
    )
    batch = TASK.sample(0, 3, 4)
    unroll = eqx.filter_jit(lambda model: model.unroll(batch.inputs, internals=True))
    run, same = unroll(model), unroll(half)
    np.testing.assert_allclose(run.outputs, same.outputs, atol=1e-6)
    np.testing.assert_allclose(run.reads, 0.5 * same.internals.reads, atol=1e-6)
    backend = choose_backend("auto", model, TASK.loss)
    assert "fused has no constraint LargeReads on the reads" in backend.reason
    loss, parts, gradient = backend.value_and_grad(model, batch)
    reads = np.asarray(same.internals.reads)
    own_loss = np.mean(reads**2 + 3 * 0.5 * reads)
    np.testing.assert_allclose(parts["largereads_loss"], own_loss, rtol=1e-5)

    def direct(half):
        run = half.unroll(batch.inputs, internals=True)
        of_task = total_loss(run, batch, TASK.loss)[0]
        return of_task + jnp.mean(run.internals.reads**2 + 1.5 * run.internals.reads)

    value, expected = eqx.filter_jit(eqx.filter_value_and_grad(direct))(half)
    np.testing.assert_allclose(loss, value, rtol=1e-5)
    np.testing.assert_allclose(
        gradient.readout_weight, 0.5 * expected.readout_weight, rtol=1e-4, atol=1e-7
    )
    np.testing.assert_allclose(
        gradient.interface_weight, expected.interface_weight, rtol=1e-3, atol=1e-7
    )
