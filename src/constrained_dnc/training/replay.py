"""Replay of a skipped update: which quantity was the first to be non-finite?

The update is recomputed with the pure backend from the stored parameters and the iteration's batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optax

from constrained_dnc.errors import SettingError
from constrained_dnc.files import corruption_named, make_folder, read_tensors, write_tensors
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.leaves import name_leaves, named_leaves
from constrained_dnc.shapes import Array
from constrained_dnc.tasks.task import Batch
from constrained_dnc.training.batches import constraint_key, training_batch
from constrained_dnc.training.folder import kept_file, kept_iterations
from constrained_dnc.training.parameters import backend_for, load_model
from constrained_dnc.training.run import Run, load_run

ORDER = (  # in which a step computes its quantities
    "hidden",
    "uncompressed_cell_state",
    "cell_state",
    "interface",
    "memory.usage",
    "memory.write_weights",
    "memory.memory",
    "memory.link",
    "memory.precedence",
    "memory.read_weights",
    "reads",
    "outputs",
)


@dataclass(frozen=True)
class Replayed:
    """The first non-finite quantity of a skipped update."""

    iteration: int
    length: int
    finding: str

    def __str__(self) -> str:
        return f"iteration {self.iteration}, length {self.length}: {self.finding}"


def keep_skipped_update(
    run: Path, iteration: int, parameters: Any, loss: float, norm: float
) -> None:
    """Store what a replay needs; the batch follows from seed and iteration."""
    path = kept_file(run, iteration)
    make_folder(path.parent)
    metadata = {"iteration": iteration, "loss": repr(loss), "gradient_norm": repr(norm)}
    write_tensors(path, name_leaves(parameters, "parameters"), metadata)


def replay(run: Run | str | Path, iteration: int | None = None) -> Replayed:
    """Recompute a skipped update, by default the first, and name the first non-finite quantity."""
    run = run if isinstance(run, Run) else load_run(run)
    kept = kept_iterations(run.folder)
    if not kept:
        raise SettingError(f"{run.folder} has no skipped updates to replay")
    iteration = kept[0] if iteration is None else iteration
    if iteration not in kept:
        raise SettingError("iteration", iteration, f"one of {', '.join(map(str, kept))}")
    path = kept_file(run.folder, iteration)
    tensors, metadata = read_tensors(path)
    with corruption_named(path):
        loss, norm = float(metadata["loss"]), float(metadata["gradient_norm"])
    batch = training_batch(run.task, run.config, iteration)
    if np.isfinite(loss + norm):
        finding = (
            f"loss ({loss:g}) and gradient (norm {norm:g}) are finite, but the new parameters or "
            f"optimiser state are not; learning rate {run.config.training.learning_rate:g}"
        )
    else:
        model = load_model(run.config, tensors, path)
        key = constraint_key(run.config, iteration) if model.uses_key else None
        finding = (
            _in_batch(batch)
            or _in_forward_pass(model, batch, key)
            or _in_loss_and_gradient(run, model, batch, key)
            or "everything is finite with the pure backend; the cause lies in the backend "
            f"{run.backend} or the machine"
        )
    return Replayed(iteration, batch.length, finding)


def _in_batch(batch: Batch) -> str | None:
    for name in ("inputs", "targets"):
        if place := _first(getattr(batch, name)):
            return f"{name} of the batch are not finite at {_spelled(place)}"
    return None


def _in_forward_pass(model: DNC, batch: Batch, key: Array | None) -> str | None:
    """The first quantity that is not finite: by step, then in the order of computation."""
    unrolled = model.unroll(batch.inputs, internals=True, key=key)
    named = [*named_leaves(unrolled.internals), ("outputs", unrolled.outputs)]
    places = [
        (place[0], rank, index, f"{name} is not finite at {_spelled(place)}")
        for rank, prefix in enumerate(ORDER)
        for index, (name, values) in enumerate(named)
        if name.startswith(prefix) and (place := _first(values))
    ]
    return min(places)[-1] if places else None


def _in_loss_and_gradient(run: Run, model: DNC, batch: Batch, key: Array | None) -> str | None:
    backend = backend_for(run.config, model, "pure")
    loss, parts, gradient = backend.value_and_grad(model, batch, key)
    for name, value in (*parts.items(), ("loss", loss)):
        if not np.isfinite(value):
            return f"{name} is {float(value)} although outputs and cell states are finite"
    names = [name for name, values in named_leaves(gradient) if _first(values)]
    if names:
        return f"the gradient of {', '.join(names)} is not finite although the loss is"
    if not np.isfinite(norm := optax.tree.norm(gradient)):
        return f"every gradient is finite, but their norm is {norm}: the sum of squares overflows"
    return None


def _first(values: Any) -> tuple[int, ...] | None:
    """The index of the first non-finite value."""
    places = np.argwhere(~np.isfinite(np.asarray(values)))
    return tuple(map(int, places[0])) if len(places) else None


def _spelled(place: tuple[int, ...]) -> str:
    return f"step {place[0] + 1}, sample {place[1] + 1}"
