"""The guard: a loss or gradient that is not finite never reaches the parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax

from constrained_dnc.training.files import name_leaves, write_tensors

MAX_SKIPPED_IN_A_ROW = 100
"""After that many the run has diverged."""
MAX_KEPT = 5
"""Of the skipped updates, the first few are kept for a replay."""

Update = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any, Any]]


def guarded_update(optimiser: optax.GradientTransformation) -> Update:
    """A compiled update: new parameters and optimiser state, gradient norm, whether it was made.

    Without donated buffers: the selected parameters may be the current ones, and the backend may
    hold views of them.
    """

    @jax.jit
    def update(parameters: Any, state: Any, gradient: Any, loss: Any) -> Any:
        norm = optax.tree.norm(gradient)
        is_finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        changes, new_state = optimiser.update(gradient, state, parameters)
        new_parameters = optax.apply_updates(parameters, changes)
        kept = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old),
            (new_parameters, new_state),
            (parameters, state),
        )
        return *kept, norm, is_finite

    return update


def keep_offender(folder: Path, iteration: int, parameters: Any, loss: float, norm: float) -> None:
    """Store what a replay needs; the batch follows from seed and iteration."""
    folder.mkdir(exist_ok=True)
    about = {"iteration": iteration, "loss": repr(loss), "gradient_norm": repr(norm)}
    path = folder / f"iteration-{iteration:07d}.safetensors"
    write_tensors(path, name_leaves(parameters, "parameters"), about)
