"""Small models and inputs for the model tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from constrained_dnc.model import dnc_memory
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.dnc import DNC
from constrained_dnc.parts import APPROACHES

NETWORKS = [  # approaches without those that differ in the loss only
    "stateful-baseline",
    "stateless-baseline",
    "compr",
    "peephole",
    "lstm-compr",
    "stateful-baseline+used",
]
SIZES = SimpleNamespace(input_size=3, output_size=2)
SMALL = ModelConfig(memory_size=5, word_size=3, num_reads=2, hidden_size=4)


def small_dnc(approach: str, config: ModelConfig = SMALL, scale: float = 1.0, seed: int = 0) -> DNC:
    """A model with random biases too, so that nothing is at a special point."""
    model = build_dnc(APPROACHES[approach], SIZES, config, key=jax.random.key(seed))
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: leaf * scale + jnp.asarray(rng.normal(size=leaf.shape) * scale, leaf.dtype),
        model,
    )


def random_inputs(time: int, batch: int, seed: int = 0, scale: float = 1.0) -> Any:
    rng = np.random.default_rng(seed)
    return jnp.asarray(
        rng.normal(size=(time, batch, SIZES.input_size)) * scale, jnp.result_type(float)
    )


def assert_slopes_agree(loss, point, gradient, rng) -> None:
    """The gradient at a point against finite differences of the loss, in random directions."""
    for _ in range(4):
        direction = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), gradient)
        ahead, behind = (
            loss(jax.tree.map(lambda a, d, s=s: a + s * 1e-5 * d, point, direction))
            for s in (1, -1)
        )
        pairs = zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True)
        slope = sum(jnp.vdot(g, d) for g, d in pairs)
        np.testing.assert_allclose((ahead - behind) / 2e-5, slope, rtol=1e-6)


def named_parameters(model: DNC) -> dict[str, np.ndarray]:
    """Every array of the model under its field's name."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_array))
    return {path[-1].name: np.asarray(leaf) for path, leaf in leaves}


def unroll_with_frozen_usage(model, inputs, write_weights):
    """Outputs and cell states where the usage sees fixed write weights."""
    before = jnp.concatenate([jnp.zeros_like(write_weights[:1]), write_weights[:-1]])
    state = jax.vmap(lambda _: model.initial_state())(jnp.arange(inputs.shape[1]))

    def step(inputs, before, now, state):
        state = eqx.tree_at(lambda s: s.memory.write_weights, state, before)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                dnc_memory, "usage_after_write", lambda usage, _: usage + (1 - usage) * now
            )
            return model.step(inputs, state)

    def body(state, xs):
        outputs, state, inside = jax.vmap(step)(*xs, state)
        return state, (outputs, inside.cell_state)

    return jax.lax.scan(body, state, (inputs, before, write_weights))[1]
