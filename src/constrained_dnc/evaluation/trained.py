"""The trained model that a user names: a run, its folder, a pretrained model, or a model."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from constrained_dnc.config import (
    INFERENCES,
    TRAINING_LENGTHS,
    EvaluationConfig,
    Inference,
    SelectionRule,
    TrainingConfig,
)
from constrained_dnc.errors import SettingError, one_of
from constrained_dnc.evaluation.digital import Digital, calibrate, digital_of, stored_digital
from constrained_dnc.model.backend import AbstractBackend
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.shapes import Float
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.run import Run, TrainedModel, load_run


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


def trained_model(
    model: Run | DNC | str | Path,
    task: AbstractTask | str | None = None,
    selection: SelectionRule | None = None,
    settings: EvaluationConfig | None = None,
    inference: Inference = "network",
) -> TrainedModel:
    """The trained model of a run, or a model from Python with its task."""
    if inference not in INFERENCES:
        raise SettingError("inference", inference, one_of(INFERENCES, inference))
    if isinstance(model, DNC):
        trained = _from_python(model, task)
        digital = calibrate(model, trained.task) if inference == "digital" else None
    elif task is not None:
        raise SettingError("a run knows its task: leave the argument out")
    else:
        run = model if isinstance(model, Run) else load_run(model)
        trained = run.selected(selection)
        digital = digital_of(run, trained) if inference == "digital" else None
    if settings is not None:
        trained = dataclasses.replace(trained, settings=settings)
    return trained if digital is None else _digitised(trained, digital)


def _from_python(model: DNC, task: AbstractTask | str | None) -> TrainedModel:
    if task is None:
        raise SettingError("a model needs its task, such as task='copy'")
    task = get_task(task) if isinstance(task, str) else task
    shortest, longest = model.training_lengths or TRAINING_LENGTHS
    training = TrainingConfig(min_length=shortest, max_length=longest)
    return TrainedModel(lambda: model, task, training, EvaluationConfig())


def _digitised(trained: TrainedModel, digital: Digital) -> TrainedModel:
    model = digital.apply(trained.model)
    count = _number(digital.state_count)
    return dataclasses.replace(trained, load=lambda: model, inference="digital", state_count=count)


def origin_of(trained: TrainedModel) -> dict[str, object]:
    """The columns of results that name the origin of the parameters."""
    run, count = trained.run, trained.state_count
    if run is None:
        names = {"run_id": "", "approach": "", "seed": 0}
        reached = {"iterations": 0, "status": "", "skipped_updates": 0}
    else:
        config, status = run.config, run.status
        names = {
            "run_id": config.run_id,
            "approach": config.approach.name,
            "seed": config.seed,
        }
        reached = {
            "iterations": status.iteration,
            "status": status.state,
            "skipped_updates": status.skipped_updates,
        }
        if trained.inference == "network" and (stored := stored_digital(run, trained)):
            count = _number(stored.state_count)
    selected = {"selection": trained.rule, "iteration": trained.iteration}
    return {**names, **selected, **reached, "state_count": count}


def _number(count: int | None) -> float:
    return math.inf if count is None else float(count)
