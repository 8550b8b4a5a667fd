"""The subject of an evaluation: a model with its task and memory, from a run or from Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from constrained_dnc.config import (
    INFERENCES,
    TRAINING_LENGTHS,
    EvaluationConfig,
    Inference,
    SelectionRule,
)
from constrained_dnc.errors import RunError, SettingError, one_of
from constrained_dnc.evaluation.digital import Digital, calibrate, digital_of, stored_digital
from constrained_dnc.files import read_json, write_json
from constrained_dnc.model.backend import AbstractBackend, choose_backend
from constrained_dnc.model.config import GROWING, BackendChoice, MemorySize, require_memory_size
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.shapes import Array, Float
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Batch
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.folder import FREE_CAPACITY
from constrained_dnc.training.run import Run, Selected, load_run


def outputs_of(
    backend: AbstractBackend,
    model: DNC,
    memory: int | Growing,
    inputs: Float[Any, "time batch inputs"],
) -> Float[np.ndarray, "time batch outputs"]:
    """The outputs of a model that runs with this memory instead of the one in training."""
    return np.asarray(
        backend.forward(model.with_memory_size(memory), inputs, keep_state=False).outputs
    )


def growing_memory(training_slots: int, free_capacity: float) -> Growing:
    """The growing memory of a model trained with that many slots."""
    capacity = min(free_capacity, float(training_slots))
    return Growing(training_slots, capacity, limit=max(Growing.limit, 2 * training_slots))


def free_capacity_of(run: Run, selected: Selected) -> float:
    """F, the least free capacity of selected parameters in training.

    It is measured on one batch of the longest training length and stored in the run directory.
    """
    path, known = run.folder / FREE_CAPACITY, {}
    with suppress(RunError):  # absent or corrupt: measure it again
        known = read_json(path)
    stored = known.get(selected.rule)
    if isinstance(stored, dict) and stored.get("iteration") == selected.iteration:
        return float(stored["free_capacity"])
    batch = evaluation_batch(run.task, run.config.evaluation, run.config.training.max_length, 0)
    capacity = least_free_capacity(selected.model, batch)
    if not run.is_pretrained:
        known[selected.rule] = {"iteration": selected.iteration, "free_capacity": capacity}
        with suppress(RunError):  # the run may be on a read-only disk
            write_json(path, known)
    return capacity


def least_free_capacity(model: DNC, batch: Batch) -> float:
    """The minimum over samples and steps of the sum of 1 - usage over slots.

    It is rounded down to a thousandth, so that a rounding error of a backend does not look like a
    full memory. It is 0 for a model that computes NaN: its memory never grows.
    """
    model.memory.require_growth()
    usage = np.asarray(_usage(model, jnp.asarray(batch.inputs)), np.float64)
    free = (1 - usage).sum(axis=-1)
    steps = np.arange(len(free))[:, None] < batch.num_steps
    least = float(free[steps].min())
    return max(0.0, math.floor(1000 * least) / 1000) if math.isfinite(least) else 0.0


@eqx.filter_jit
def _usage(
    model: DNC, inputs: Float[Array, "time batch inputs"]
) -> Float[Array, "time batch slots"]:
    inside = model.unroll(inputs, internals=True).internals
    assert inside is not None
    return inside.memory.usage


UNKNOWN: Mapping[str, object] = {
    "run_id": "",
    "approach": "",
    "seed": 0,
    "selection": "",
    "iteration": 0,
    "iterations": 0,
    "status": "",
    "skipped_updates": 0,
    "state_count": math.nan,
}
"""The columns of results that name the origin of the parameters, for a model without a run."""


@dataclass(frozen=True)
class Subject:
    """A model, its task and the settings of its evaluation."""

    model: DNC
    task: AbstractTask
    settings: EvaluationConfig = field(default_factory=EvaluationConfig)
    max_training_length: int = TRAINING_LENGTHS[1]
    origin: Mapping[str, object] = field(default_factory=lambda: UNKNOWN)
    run: Run | None = None
    selected: Selected | None = None
    inference: Inference = "network"

    @property
    def training_slots(self) -> int:
        size = self.model.memory.size
        return size.start if isinstance(size, Growing) else size

    def backend(
        self, choice: BackendChoice = "auto", threads: int | None = None
    ) -> AbstractBackend:
        """A backend for the model, not necessarily the one it was trained with."""
        return choose_backend(choice, self.model, self.task.loss, threads=threads)

    def batch(self, length: int, index: int) -> Batch:
        """A batch of one length, see `evaluation_batch`."""
        return evaluation_batch(self.task, self.settings, length, index)

    def memory(self, size: MemorySize) -> int | Growing:
        """The memory that the model is to run with."""
        require_memory_size(size)
        if size != GROWING:
            return size
        if self.run is not None and self.selected is not None:
            capacity = free_capacity_of(self.run, self.selected)
        else:
            capacity = least_free_capacity(self.model, self.batch(self.max_training_length, 0))
        return growing_memory(self.training_slots, capacity)


def subject_of(
    model: Run | DNC | str | Path,
    task: AbstractTask | str | None = None,
    selection: SelectionRule | None = None,
    settings: EvaluationConfig | None = None,
    inference: Inference = "network",
) -> Subject:
    """The subject for a run, or for a model and its task."""
    if inference not in INFERENCES:
        raise SettingError("inference", inference, one_of(INFERENCES, inference))
    if isinstance(model, DNC):
        if task is None:
            raise SettingError("a model needs its task, such as task='copy'")
        task = get_task(task) if isinstance(task, str) else task
        subject = Subject(model, task, settings or EvaluationConfig())
        return subject if inference == "network" else _digitised(subject, calibrate(model, task))
    if task is not None:
        raise SettingError("a run knows its task: leave the argument out")
    run = model if isinstance(model, Run) else load_run(model)
    rule = selection or run.default_rule
    selected, status = run.selected(rule), run.status
    stored = stored_digital(run, selected)
    origin = {
        "run_id": run.config.run_id,
        "approach": run.config.approach.name,
        "seed": run.config.seed,
        "selection": rule,
        "iteration": selected.iteration,
        "iterations": status.iteration,
        "status": status.state,
        "skipped_updates": status.skipped_updates,
        "state_count": math.nan if stored is None else _number(stored.state_count),
    }
    settings = settings or run.config.evaluation
    max_length = run.config.training.max_length
    subject = Subject(selected.model, run.task, settings, max_length, origin, run, selected)
    if inference == "network":
        return subject
    return _digitised(subject, stored or digital_of(run, selected))


def _digitised(subject: Subject, digital: Digital) -> Subject:
    return replace(
        subject,
        model=digital.apply(subject.model),
        origin={**subject.origin, "state_count": _number(digital.state_count)},
        inference="digital",
    )


def _number(count: int | None) -> float:
    return math.inf if count is None else float(count)
