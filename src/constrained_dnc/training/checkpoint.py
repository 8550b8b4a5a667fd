"""Checkpoints: everything that a bit-exact resume needs, in two alternating files.

Which file is written depends on the iteration only, so that a run ends with equal files however
often it was stopped or extended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from constrained_dnc.config import Config, SelectionRule
from constrained_dnc.errors import RunError
from constrained_dnc.files import corruption_named, make_folder, read_tensors, write_tensors
from constrained_dnc.model.leaves import fill_leaves, name_leaves
from constrained_dnc.shapes import Array
from constrained_dnc.training.folder import CHECKPOINTS, NONFINITE
from constrained_dnc.training.parameters import parameters_of, with_parameters
from constrained_dnc.training.selection import RuleProgress

COUNTS = ("iteration", "skipped_updates", "skipped_in_a_row", "sums")
"""Fields of `Progress` that are plain JSON values."""


@dataclass
class Progress:
    """The state of training after an iteration."""

    model: Any
    optimiser: Any
    rules: dict[SelectionRule, RuleProgress]
    iteration: int = 0  # updates so far, skipped ones included
    skipped_updates: int = 0
    skipped_in_a_row: int = 0
    sums: dict[str, list[float]] = field(default_factory=dict)  # with counts, since the last line


def save_checkpoint(folder: Path, config: Config, progress: Progress) -> None:
    """Write the progress to the file whose turn it is."""
    tensors = name_leaves(parameters_of(progress.model), "parameters")
    tensors |= name_leaves(_storable(progress.optimiser), "optimiser")
    for rule, selected in progress.rules.items():
        tensors |= name_leaves(parameters_of(selected.model), f"selected-{rule}")
    metadata = {
        "run_id": config.run_id,
        **{name: getattr(progress, name) for name in COUNTS},
        "selections": {rule: s.selection.to_values() for rule, s in progress.rules.items()},
    }
    span = math.ceil(progress.iteration / config.training.checkpoint_every)
    write_tensors(folder / CHECKPOINTS[(span - 1) % 2], tensors, metadata)


def keep_skipped_update(
    folder: Path, config: Config, progress: Progress, loss: float, norm: float
) -> None:
    """Store the parameters before a skipped update; its batch follows from seed and iteration."""
    make_folder(folder / NONFINITE)
    metadata = {
        "run_id": config.run_id,
        "iteration": progress.iteration,
        "loss": repr(loss),
        "gradient_norm": repr(norm),
    }
    tensors = name_leaves(parameters_of(progress.model), "parameters")
    path = folder / NONFINITE / f"iteration-{progress.iteration:07d}.safetensors"
    write_tensors(path, tensors, metadata)


def load_checkpoint(
    folder: Path, config: Config, progress: Progress, warn: Callable[[str], None]
) -> bool:
    """Fill the progress of a new run from the newest checkpoint; False if there is none.

    A corrupt file causes only a warning if the other one is intact.
    """
    newest = _newest(folder, warn)
    if newest is None:
        return False
    path, tensors, metadata = newest
    with corruption_named(path):
        if metadata["run_id"] != config.run_id:
            raise RunError(f"{path} is a checkpoint of another run, {metadata['run_id']}")
        fresh = progress.model
        progress.model = with_parameters(fresh, tensors)
        filled = fill_leaves(_storable(progress.optimiser), tensors, "optimiser")
        progress.optimiser = jax.tree.map(_restored, filled, progress.optimiser)
        for rule, selected in progress.rules.items():
            selected.selection.restore(metadata["selections"][rule])
            if selected.selection.best_iteration is not None:
                selected.model = with_parameters(fresh, tensors, f"selected-{rule}")
        for name in COUNTS:
            setattr(progress, name, metadata[name])
    return True


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _storable(state: Any) -> Any:
    """The state of an optimiser in types that safetensors has: no random keys, no bfloat16."""

    def plain(leaf: Array) -> Array:
        if _is_key(leaf):
            return jax.random.key_data(leaf)
        return leaf.astype(jnp.float32) if leaf.dtype == jnp.bfloat16 else leaf

    return jax.tree.map(plain, state)


def _restored(leaf: Array, like: Array) -> Array:
    if _is_key(like):
        return jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(like))
    return leaf.astype(like.dtype)


Stored: TypeAlias = tuple[Path, dict[str, Any], dict[str, Any]]


def _newest(folder: Path, warn: Callable[[str], None]) -> Stored | None:
    """Path, tensors and metadata of the newest intact checkpoint."""
    intact: list[Stored] = []
    problems = []
    for path in (folder / name for name in CHECKPOINTS):
        if path.exists():
            try:
                tensors, metadata = read_tensors(path)
                intact.append((path, tensors, {"iteration": 0, **metadata}))
            except RunError as error:
                problems.append(str(error))
    if problems and not intact:
        raise RunError(f"no checkpoint is intact; nothing was changed: {'; '.join(problems)}")
    for problem in problems:
        warn(f"{problem}; resuming from the other checkpoint")
    return max(intact, key=lambda stored: stored[2]["iteration"], default=None)
