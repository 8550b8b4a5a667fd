"""Replay of a skipped update: which quantity was the first that is not finite?

The kept parameters and the batch of that iteration go through the model in plain JAX, one step at
a time, forwards and then backwards, until something is not finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import Fields, read_tensors, require_fields
from constrained_dnc.model.dnc import DNC, DNCState, Internals
from constrained_dnc.model.leaves import named_leaves
from constrained_dnc.model.losses import total_loss
from constrained_dnc.tasks.task import Batch
from constrained_dnc.training.disk import kept_file, kept_iterations
from constrained_dnc.training.run import Run, load_model, load_run, require_own
from constrained_dnc.training.streams import training_batch

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
)


@dataclass(frozen=True)
class Replayed:
    """What a replay found."""

    iteration: int
    length: int
    finding: str

    def __str__(self) -> str:
        return f"iteration {self.iteration}, length {self.length}: {self.finding}"


def replay(run: Run | str | Path, iteration: int | None = None) -> Replayed:
    """Recompute a skipped update, by default the first, and name the first non-finite quantity."""
    run = run if isinstance(run, Run) else load_run(run)
    kept = kept_iterations(run.folder)
    iteration = kept[0] if iteration is None and kept else iteration
    if iteration not in kept:
        accepted = f"one of {', '.join(map(str, kept))}" if kept else "none: no update was skipped"
        raise SettingError("iteration", iteration, accepted)
    assert iteration is not None
    path = kept_file(run.folder, iteration)
    tensors, about = read_tensors(path)
    require_fields(path, about, {**_ABOUT_KEPT, "iteration": lambda value: value == iteration})
    require_own(path, about, run.config.run_id)
    try:
        model = load_model(run.config, tensors, "parameters")
    except RunError as error:
        raise RunError(f"{path} has the parameters of another model: {error}") from error
    batch = training_batch(run.task, run.config, iteration)
    return Replayed(iteration, batch.length, _overflow(run, about) or _finding(run, model, batch))


def _is_number(value: Any) -> bool:
    """Whether it is the text of a number: JSON has none that is not finite."""
    try:
        float(value)
    except ValueError:
        return False
    return True


_ABOUT_KEPT: Fields = {
    name: lambda value: isinstance(value, str) and _is_number(value)
    for name in ("loss", "gradient_norm")
}


def _overflow(run: Run, about: dict[str, Any]) -> str | None:
    """What a finite gradient says: the optimiser's step was too large for float32."""
    loss, norm = (float(about[name]) for name in ("loss", "gradient_norm"))
    if not np.isfinite(loss + norm):
        return None
    rate = run.config.training.learning_rate
    return (
        f"loss ({loss:g}) and gradient (norm {norm:g}) are finite, the new parameters or the "
        f"optimiser's state were not; training.learning_rate is {rate:g}"
    )


def _finding(run: Run, model: DNC, batch: Batch) -> str:
    for name in ("inputs", "targets"):
        if place := _first(getattr(batch, name)):
            where = f"step {place[0] + 1}, sample {place[1] + 1}"
            return f"{name} of the batch is not finite at {where}"
    steps = _Steps(model, batch)
    return (
        steps.forwards()
        or steps.losses(run.task.loss)
        or steps.backwards(run.task.loss)
        or "everything is finite with the pure backend: what was not came from the backend "
        f"{run.backend} or from the machine"
    )


class _Steps:
    """The unroll of one batch, step by step, with every state kept."""

    def __init__(self, model: DNC, batch: Any):
        self.model = model
        self.batch = batch
        self.states = [model.initial_states(batch.inputs.shape[1])]
        self.outputs: list[Any] = []
        self.cells: list[Any] = []

    def forwards(self) -> str | None:
        """The first quantity of the forward pass that is not finite."""
        step = eqx.filter_jit(_step)
        for number, inputs in enumerate(self.batch.inputs, 1):
            outputs, state, inside = step(self.model, inputs, self.states[-1])
            for name, values in (*_in_order(inside), ("outputs", outputs)):
                if place := _first(np.asarray(values)):
                    return f"{name} is not finite at step {number}, sample {place[0] + 1}"
            self.states.append(state)
            self.outputs.append(outputs)
            self.cells.append(inside.cell_state)
        return None

    def losses(self, kind: Any) -> str | None:
        """The first part of the loss that is not finite."""
        loss, parts = total_loss(
            jnp.stack(self.outputs),
            jnp.stack(self.cells),
            self.batch,
            kind,
            self.model.constraints,
        )
        for name, value in (*parts.items(), ("loss", loss)):
            if not np.isfinite(value):
                return f"{name} is {float(value)}, all outputs and cell states are finite"
        return None

    def backwards(self, kind: Any) -> str | None:
        """The first gradient that is not finite, from the last step to the first."""

        def loss(outputs: Any, cells: Any) -> Any:
            return total_loss(outputs, cells, self.batch, kind, self.model.constraints)[0]

        outputs, cells = jax.grad(loss, argnums=(0, 1))(
            jnp.stack(self.outputs), jnp.stack(self.cells)
        )
        for name, values in (("outputs", outputs), ("cell_state", cells)):
            if place := _first(np.asarray(values)):
                return f"the gradient of the loss by {name} is not finite at step {place[0] + 1}"
        pull = eqx.filter_jit(_pull_back)
        by_state = jax.tree.map(jnp.zeros_like, self.states[-1])
        gradient = jax.tree.map(jnp.zeros_like, eqx.filter(self.model, eqx.is_inexact_array))
        for step in reversed(range(len(self.batch.inputs))):
            by_model, by_state = pull(
                self.model,
                self.batch.inputs[step],
                self.states[step],
                (outputs[step], by_state, cells[step]),
            )
            for what, tree in (("parameter", by_model), ("state", by_state)):
                for name, values in named_leaves(tree):
                    if _first(np.asarray(values)):
                        return f"the gradient of the {what} {name} is not finite at step {step + 1}"
            gradient = jax.tree.map(jnp.add, gradient, by_model)
        return _overflow_of_sums(gradient)


def _overflow_of_sums(gradient: Any) -> str | None:
    for name, values in named_leaves(gradient):
        if _first(np.asarray(values)):
            return f"the gradient of the parameter {name} is finite at every step, its sum is not"
    if not np.isfinite(norm := optax.tree.norm(gradient)):
        return f"every gradient is finite, their norm is {norm}: the sum of squares overflows"
    return None


def _step(model: DNC, inputs: Any, state: DNCState) -> tuple[Any, DNCState, Internals]:
    return jax.vmap(model.step)(inputs, state)


def _pull_back(model: DNC, inputs: Any, state: DNCState, cotangents: Any) -> tuple[Any, Any]:
    parameters, rest = eqx.partition(model, eqx.is_inexact_array)

    def run(parameters: Any, state: DNCState) -> tuple[Any, DNCState, Any]:
        outputs, after, inside = _step(eqx.combine(parameters, rest), inputs, state)
        return outputs, after, inside.cell_state

    _, pull = jax.vjp(run, parameters, state)
    by_parameters, by_state = pull(cotangents)
    return by_parameters, by_state


def _in_order(inside: Internals) -> Iterator[tuple[str, Any]]:
    named = named_leaves(inside)
    for prefix in ORDER:
        yield from (entry for entry in named if entry[0].startswith(prefix))


def _first(values: Any) -> tuple[int, ...] | None:
    """Where the first value is that is not finite."""
    places = np.argwhere(~np.isfinite(values))
    return tuple(map(int, places[0])) if len(places) else None
