"""The guard: non-finite values never reach the parameters or the optimiser's state."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax

from constrained_dnc.files import make_folder, write_tensors
from constrained_dnc.model.leaves import name_leaves
from constrained_dnc.training.disk import kept_file

MAX_SKIPPED_IN_A_ROW = 100
"""After this many the run has diverged."""
TOLERABLE_SHARE = 0.1
"""A run with a larger share of skipped updates is worth a warning."""
MAX_KEPT = 5
"""How many skipped updates are kept for a replay."""

Update = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any, Any]]


@lru_cache(maxsize=8)
def guarded_update(optimiser: optax.GradientTransformation) -> Update:
    """A compiled update: new parameters and optimiser state, gradient norm, whether it was finite.

    Buffers are not donated: the selected parameters may be the current ones, and the backend may
    hold views of them.
    """

    @jax.jit
    def update(parameters: Any, state: Any, gradient: Any, loss: Any) -> Any:
        norm = optax.tree.norm(gradient)
        changes, new_state = optimiser.update(gradient, state, parameters)
        updated = optax.apply_updates(parameters, changes), new_state
        # a finite gradient is not enough: the step itself, or its square, can overflow
        is_finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        for leaf in jax.tree.leaves(updated):
            if jnp.issubdtype(leaf.dtype, jnp.inexact):
                is_finite &= jnp.isfinite(leaf).all()
        kept = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old), updated, (parameters, state)
        )
        return *kept, norm, is_finite

    return update


def keep_skipped_update(
    run: Path, iteration: int, parameters: Any, loss: float, norm: float
) -> None:
    """Store what a replay needs; the batch follows from seed and iteration."""
    path = kept_file(run, iteration)
    make_folder(path.parent)
    metadata = {"iteration": iteration, "loss": repr(loss), "gradient_norm": repr(norm)}
    write_tensors(path, name_leaves(parameters, "parameters"), metadata)
