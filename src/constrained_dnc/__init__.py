"""Differentiable neural computers with constrained controller states."""

from constrained_dnc.approaches import APPROACHES, Approach, Regularisation, get_approach
from constrained_dnc.config import Config, EvaluationConfig, TrainingConfig, make_config
from constrained_dnc.errors import BadSetting, RunProblem
from constrained_dnc.evaluation.lengths import evaluate, predict
from constrained_dnc.model.backend import choose_backend
from constrained_dnc.model.build import build_dnc
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.model.controllers import AbstractController, ControllerStep
from constrained_dnc.model.dnc import DNC, DNCState
from constrained_dnc.model.losses import total_loss
from constrained_dnc.tasks.numeral import AbstractNumeralTask
from constrained_dnc.tasks.registry import get_task, task_names
from constrained_dnc.tasks.task import AbstractTask, Batch
from constrained_dnc.training.loop import train
from constrained_dnc.training.observer import Observer, Snapshot
from constrained_dnc.training.replay import replay
from constrained_dnc.training.run import Run, load_pretrained, load_run

__all__ = [
    "APPROACHES",
    "DNC",
    "AbstractController",
    "AbstractNumeralTask",
    "AbstractTask",
    "Approach",
    "BadSetting",
    "Batch",
    "Config",
    "ControllerStep",
    "DNCState",
    "EvaluationConfig",
    "ModelConfig",
    "Observer",
    "Regularisation",
    "Run",
    "RunProblem",
    "Snapshot",
    "TrainingConfig",
    "build_dnc",
    "choose_backend",
    "evaluate",
    "get_approach",
    "get_task",
    "load_pretrained",
    "load_run",
    "make_config",
    "predict",
    "replay",
    "task_names",
    "total_loss",
    "train",
]
