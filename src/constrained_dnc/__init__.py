"""Differentiable neural computers with constrained controller states."""

from constrained_dnc.approaches import APPROACHES, Approach, Regularisation, get_approach
from constrained_dnc.errors import BadSetting
from constrained_dnc.model.backend import choose_backend
from constrained_dnc.model.build import ModelConfig, build_dnc
from constrained_dnc.model.controllers import AbstractController, ControllerStep
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.losses import total_loss
from constrained_dnc.tasks.numeral import AbstractNumeralTask
from constrained_dnc.tasks.registry import get_task, task_names
from constrained_dnc.tasks.task import AbstractTask, Batch

__all__ = [
    "APPROACHES",
    "DNC",
    "AbstractController",
    "AbstractNumeralTask",
    "AbstractTask",
    "Approach",
    "BadSetting",
    "Batch",
    "ControllerStep",
    "ModelConfig",
    "Regularisation",
    "build_dnc",
    "choose_backend",
    "get_approach",
    "get_task",
    "task_names",
    "total_loss",
]
