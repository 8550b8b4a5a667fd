"""It learns, through the memory, and every part of the memory has its gradient.

The learning test uses the controller without a state: what it copies it can only have kept in the
memory. As the memory has more than one way to solve a task, a missing gradient of one part might
only slow learning down: finite differences along every part of the interface reveal it, and the
last test cuts each gradient to show that they do.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import SMALL, random_inputs, small_dnc, unroll_with_frozen_usage

from constrained_dnc.config import EvaluationConfig, TrainingConfig, make_config
from constrained_dnc.evaluation.scoring import evaluate
from constrained_dnc.model import addressing, dnc_memory
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.dnc_memory import interface_parts
from constrained_dnc.training.loop import train

PARTS = (
    "content_weights",
    "allocation_weights",
    "usage_after_step",
    "link_after_write",
    "precedence_after_write",
    "_write",
)
"""Functions of the memory, each of which passes on a gradient."""


def test_learns_to_copy_with_nothing_but_the_memory(tmp_path):
    config = replace(
        make_config("copy", "stateless-baseline"),
        model=ModelConfig(memory_size=8, word_size=8, num_reads=1, hidden_size=32),
        training=TrainingConfig(
            iterations=3000,
            batch_size=32,
            learning_rate=3e-3,
            min_length=1,
            max_length=4,
            unseen_length=5,
            window=10,
        ),
        evaluation=EvaluationConfig(lengths="1..5", batches=4),
    )
    run = train(config, tmp_path / "run", threads=1)
    scores = dict(zip(range(1, 6), evaluate(run)["score"].tolist(), strict=True))
    assert np.mean([scores[length] for length in range(1, 5)]) >= 0.95
    untrained = 0.2  # one of five numerals
    assert scores[5] > 2 * untrained


def memory_model():
    """A model whose outputs come from the reads alone, and one vector per part of its requests."""
    model = small_dnc("stateless-baseline", scale=0.6)
    model = eqx.tree_at(
        lambda m: (m.output_weight, m.output_bias), model, replace_fn=jnp.zeros_like
    )
    rng = np.random.default_rng(0)
    sizes = interface_parts(SMALL.num_reads, SMALL.word_size)
    ends = np.cumsum(list(sizes.values()))
    directions = {}
    for (name, size), end in zip(sizes.items(), ends, strict=True):
        directions[name] = np.zeros(ends[-1])
        directions[name][end - size : end] = rng.normal(size=size)
    return model, random_inputs(6, 2), directions


@pytest.fixture(scope="module")
def slopes_by_gradient():
    """How the loss changes along each part of the interface's bias, from gradients.

    The first row is the model's; in each other row one of the parts has its gradient cut.
    """
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
        flags = []  # 1 where a gradient is cut; one program serves all cases

        def cut(index, compute):
            def with_cut(*args):
                def scale(values):
                    constant = jax.lax.stop_gradient(values)
                    return constant + (1 - flags[-1][index]) * (values - constant)

                return jax.tree.map(scale, compute(*args))

            return with_cut

        patch.setattr(addressing, "content_weights", cut(0, addressing.content_weights))
        for index, part in enumerate(PARTS[1:], 1):
            patch.setattr(dnc_memory, part, cut(index, getattr(dnc_memory, part)))
        model, inputs, directions = memory_model()

        def loss(bias, cuts):
            flags.append(cuts)
            changed = eqx.tree_at(lambda m: m.interface_bias, model, bias)
            return jnp.sum(changed.unroll(inputs).outputs ** 2)

        cuts = jnp.concatenate([jnp.zeros((1, len(PARTS))), jnp.eye(len(PARTS))])
        gradients = jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(model.interface_bias, cuts)
    return np.asarray(gradients) @ np.array(list(directions.values())).T


@pytest.fixture(scope="module")
def slopes_by_difference():
    """Slopes from central differences, with the write weights of the usage held constant."""
    with jax.enable_x64(True):
        model, inputs, directions = memory_model()
        inside = model.unroll(inputs, internals=True).internals

        @jax.jit
        def loss(bias):
            changed = eqx.tree_at(lambda m: m.interface_bias, model, bias)
            outputs, _ = unroll_with_frozen_usage(changed, inputs, inside.memory.write_weights)
            return jnp.sum(outputs**2)

        bias, step = model.interface_bias, 1e-5
        differences = [
            (loss(bias + step * direction) - loss(bias - step * direction)) / (2 * step)
            for direction in directions.values()
        ]
        return np.array(differences, np.float64)


def test_every_part_of_the_memory_has_its_gradient(slopes_by_gradient, slopes_by_difference):
    np.testing.assert_allclose(slopes_by_gradient[0], slopes_by_difference, rtol=1e-5)


def test_a_missing_gradient_of_any_part_would_be_noticed(slopes_by_gradient, slopes_by_difference):
    errors = np.abs(slopes_by_gradient[1:] / slopes_by_difference - 1)
    assert (errors.max(axis=1) > 1e-3).all()
