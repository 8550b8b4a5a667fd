"""Both backends agree, and `fused` refuses what it cannot do in one sentence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from builders import SMALL, small_dnc
from fused_runs import compiled

from constrained_dnc.errors import SettingError
from constrained_dnc.model import fused
from constrained_dnc.model.backend import FusedBackend, PureBackend, _pure_vjp, choose_backend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.constraints import AbstractConstraint
from constrained_dnc.model.controllers import AbstractController, ControllerStep
from constrained_dnc.model.losses import total_loss
from constrained_dnc.parts import APPROACHES, Approach, Part
from constrained_dnc.tasks.chomsky import ReverseString
from constrained_dnc.tasks.registry import get_task


class Own(AbstractController):
    """A user-defined controller."""

    weight: jax.Array
    hidden_size: int = eqx.field(static=True)

    def __init__(self, input_size, hidden_size, *, key):
        self.weight = jax.random.normal(key, (hidden_size, input_size)) / input_size**0.5
        self.hidden_size = hidden_size

    def initial_state(self):
        return ()

    def __call__(self, inputs, state):
        return ControllerStep(jnp.tanh(self.weight @ inputs), state)

    def cell_state(self, state):
        return jnp.zeros(0)


class FocalReverse(ReverseString):
    """A task with a loss of its own: hard tokens weigh more."""

    name = "focal-reverse"

    def loss(self, outputs, batch):
        right = jnp.sum(jax.nn.softmax(outputs) * batch.targets, axis=-1)
        return jnp.sum(jnp.where(batch.mask, -((1 - right) ** 2) * jnp.log(right), 0), axis=0)


def model_and_batch(approach="compr+reg", task="sort"):
    task = get_task(task) if isinstance(task, str) else task
    batch = task.sample(0, 3, 4)
    return build_dnc(APPROACHES[approach], task, SMALL, key=jax.random.key(0)), batch


@compiled
@pytest.mark.parametrize(
    ("approach", "task"),
    [
        ("compr+reg", get_task("sort")),
        ("stateless-baseline", get_task("search")),
        ("lstm-reg", get_task("logic")),
        ("round+reg", get_task("chomsky/stack-manipulation")),
        ("compr+reg", FocalReverse()),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_both_backends_agree(approach, task):
    model, batch = model_and_batch(approach, task)
    pure, quick = (choose_backend(choice, model, task.loss) for choice in ("pure", "auto"))
    assert (pure.name, quick.name) == ("pure", "fused")
    (loss, parts, gradient), (loss_2, parts_2, gradient_2) = (
        backend.value_and_grad(model, batch) for backend in (pure, quick)
    )
    np.testing.assert_allclose(loss, loss_2, rtol=1e-5)
    assert parts.keys() == parts_2.keys()
    assert jax.tree.structure(gradient) == jax.tree.structure(gradient_2)
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(gradient_2), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * max(1e-12, float(np.max(np.abs(a)))))
    for size in (5, 9):
        forwards = [
            backend.forward(model.with_memory_size(size), batch.inputs) for backend in (pure, quick)
        ]
        np.testing.assert_allclose(forwards[0].outputs, forwards[1].outputs, atol=1e-5)
        np.testing.assert_allclose(forwards[0].cell_states, forwards[1].cell_states, atol=1e-5)
    np.testing.assert_allclose(
        pure.measure(model, batch)[0], quick.measure(model, batch)[0], rtol=1e-5
    )
    for a, b in zip(
        pure.weights(model, batch.inputs), quick.weights(model, batch.inputs), strict=True
    ):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_user_defined_controller_runs_on_the_pure_backend():
    task = get_task("sort")
    approach = Approach("own", f"{__file__}:Own")
    model = build_dnc(approach, task, SMALL, key=jax.random.key(0))
    backend = choose_backend("auto", model, task.loss)
    assert isinstance(backend, PureBackend)
    reason = "Own is a user-defined controller"
    assert backend.reason == f"{reason} (about four times slower than fused)"
    loss, _, _ = backend.value_and_grad(model, task.sample(0, 2, 3))
    assert np.isfinite(loss)
    with pytest.raises(SettingError, match=f"fused cannot run this model: {reason}"):
        choose_backend("fused", model, task.loss)


@compiled
def test_every_parameter_decides_about_the_precision():
    model, batch = model_and_batch()
    weight = model.controller.weight.astype(jnp.float16)
    half = eqx.tree_at(lambda model: model.controller.weight, model, weight)
    backend = choose_backend("auto", half, "squared error")
    assert backend.name == "pure"
    assert "controller.weight is float16, and fused computes in float32" in backend.reason
    assert np.isfinite(backend.forward(half, batch.inputs).outputs).all()


def test_without_the_kernel_auto_is_pure_and_says_why(monkeypatch):
    monkeypatch.setattr(fused, "missing_reason", lambda: "the fused kernel is not built")
    model, _ = model_and_batch()
    backend = choose_backend("auto", model, "squared error")
    assert backend.name == "pure"
    assert "the fused kernel is not built" in backend.reason
    with pytest.raises(
        SettingError, match="fused cannot run this model: the fused kernel is not built"
    ):
        choose_backend("fused", model, "squared error")


@compiled
def test_fused_refuses_float64_tracing_and_second_derivatives():
    model, batch = model_and_batch()
    backend = FusedBackend("squared error")
    with pytest.raises(SettingError, match="cannot be used inside jit"):
        jax.jit(lambda x: backend.forward(model, x).outputs)(batch.inputs)
    with pytest.raises(SettingError, match="cannot be used inside jit"):
        jax.grad(lambda x: backend.forward(model, x).outputs.sum())(jnp.asarray(batch.inputs))
    with pytest.raises(SettingError, match="cannot be used inside jit"):
        eqx.filter_grad(lambda m: backend.value_and_grad(m, batch)[0])(model)
    with jax.enable_x64(True):
        double = small_dnc("compr")
        with pytest.raises(SettingError, match="float64, and fused computes in float32"):
            choose_backend("fused", double, "squared error")


@compiled
def test_threads_that_share_a_backend_get_their_own_gradients():
    model, _ = model_and_batch()
    backend = FusedBackend("squared error")
    batches = [get_task("sort").sample(seed, 3, 4) for seed in range(4)]

    def gradients(batch):
        return [np.array(leaf) for leaf in jax.tree.leaves(backend.value_and_grad(model, batch)[2])]

    alone = [gradients(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(gradients, batches * 10))
    for ours, expected in zip(together, alone * 10, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(ours, expected, strict=True))


@pytest.mark.parametrize("longest", [0, 12], ids=["rounded", "longest"])
def test_padding_changes_neither_loss_nor_gradient(longest):
    """Against the gradient of the model unrolled at the true length, for one compiled program.

    The samples of a batch of search differ in their number of steps as well.
    """
    task, key = get_task("search"), jax.random.key(1)
    kinds = ("regularisation", "rounding", "noise", f"{__file__}:Spread")
    approach = Approach("x", "lstm", tuple(map(Part, kinds)))
    model = build_dnc(approach, task, SMALL, key=jax.random.key(0))
    backend = choose_backend("pure", model, task.loss, longest=longest)

    def loss(model, batch):
        return total_loss(model.unroll(batch.inputs, key=key), batch, task.loss, model.constraints)

    compiled = _pure_vjp._cached._cache_size()
    for length in (2, 4):  # 8 and 12 steps
        batch = task.sample(length, 3, length)
        (expected, parts), slopes = eqx.filter_value_and_grad(loss, has_aux=True)(model, batch)
        value, found, gradient = backend.value_and_grad(model, batch, key)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        assert found.keys() == parts.keys()
        assert jax.tree.structure(gradient) == jax.tree.structure(slopes)
        for ours, theirs in zip(jax.tree.leaves(gradient), jax.tree.leaves(slopes), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-6 * np.max(np.abs(theirs)))
    programs = _pure_vjp._cached._cache_size() - compiled
    assert programs == (1 if longest else 2)


class Spread(AbstractConstraint):
    """A loss on all states, padding of the batch included."""

    def loss(self, before, carried, num_steps):
        return jnp.mean((carried - before) ** 2 + carried, axis=(0, 2))


def test_a_run_that_is_continued_ends_in_the_state_after_its_own_steps():
    model, batch = model_and_batch("compr", "search")
    backend = PureBackend("squared error", longest=16)
    whole = model.unroll(batch.inputs)
    half = backend.forward(model, batch.inputs[:5])
    rest = backend.forward(model, batch.inputs[5:], half.state)
    np.testing.assert_allclose(rest.outputs, whole.outputs[5:], atol=1e-6)
    for ours, theirs in zip(jax.tree.leaves(rest.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_backend_that_does_not_exist_is_refused():
    model, _ = model_and_batch()
    with pytest.raises(SettingError, match="backend must be one of auto, fused, pure"):
        choose_backend("fast", model, "squared error")


def losses_of_training(choice, seed, iterations):
    task, approach = get_task("copy"), APPROACHES["compr+reg"]
    model = build_dnc(approach, task, SMALL, key=jax.random.key(seed))
    backend = choose_backend(choice, model, task.loss, threads=1)
    optimiser = optax.adam(1e-3)
    state = optimiser.init(model)
    update = jax.jit(optimiser.update)
    losses = []
    for iteration in range(iterations):
        loss, _, gradient = backend.value_and_grad(model, task.sample(iteration, 8, 3))
        updates, state = update(gradient, state)
        model = eqx.apply_updates(model, updates)
        losses.append(float(loss))
    return np.array(losses)


@compiled
def test_training_goes_the_same_way_with_both_backends():
    """The loss of the first 50 iterations from one seed, to 1e-3 relative."""
    fused_losses, pure_losses = (losses_of_training(choice, 1, 50) for choice in ("fused", "pure"))
    np.testing.assert_allclose(fused_losses, pure_losses, rtol=1e-3)


@compiled
@pytest.mark.slow
def test_learning_curves_agree_within_the_spread_of_seeds():
    """Over 2000 iterations: in every tenth of them, the mean of one backend's seeds is among the
    other's."""
    curves = {
        choice: np.array(
            [losses_of_training(choice, seed, 2000).reshape(10, 200).mean(1) for seed in range(4)]
        )
        for choice in ("fused", "pure")
    }
    for one, other in (("fused", "pure"), ("pure", "fused")):
        mean = curves[one].mean(0)
        assert np.all(curves[other].min(0) <= mean), curves
        assert np.all(mean <= curves[other].max(0)), curves
    assert np.all(curves["fused"][:, -1] < 0.8 * curves["fused"][:, 0]), "nothing was learnt"
