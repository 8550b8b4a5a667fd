"""The subject of an evaluation: a model with its task and memory, from a run or from Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from constrained_dnc.config import (
    INFERENCES,
    TRAINING_LENGTHS,
    EvaluationConfig,
    Inference,
    SelectionRule,
)
from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.evaluation.digital import Digital, calibrate, digital_of, stored_digital
from constrained_dnc.model.backend import AbstractBackend, choose_backend
from constrained_dnc.model.config import GROWING, BackendChoice, MemorySize, require_memory_size
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.shapes import Float
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask, Batch
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.run import Run, load_run


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


def growing_memory(training_slots: int) -> Growing:
    """The growing memory of a model trained with that many slots."""
    return Growing(training_slots, limit=max(Growing.limit, 2 * training_slots))


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
        return growing_memory(self.training_slots) if size == GROWING else size


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
        longest = (model.training_lengths or TRAINING_LENGTHS)[1]
        subject = Subject(model, task, settings or EvaluationConfig(), longest)
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
    subject = Subject(selected.model, run.task, settings, max_length, origin, run)
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
