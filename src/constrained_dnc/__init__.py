"""Differentiable neural computers with constrained controller states.

Every name is imported on first use, so that importing the package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from constrained_dnc.config import Config, EvaluationConfig, TrainingConfig, make_config
    from constrained_dnc.errors import RunError, SettingError
    from constrained_dnc.evaluation.digital import Digital, calibrate, digitise, state_count
    from constrained_dnc.evaluation.prediction import predict
    from constrained_dnc.evaluation.scoring import evaluate
    from constrained_dnc.evaluation.states import Drift, distinct_states, drift
    from constrained_dnc.explorer.server import explore
    from constrained_dnc.machine.automaton import Machine
    from constrained_dnc.machine.certificate import Certificate, certify
    from constrained_dnc.machine.extraction import Extraction, extract_machine
    from constrained_dnc.machine.fidelity import fidelity
    from constrained_dnc.model.backend import choose_backend
    from constrained_dnc.model.build import build_dnc
    from constrained_dnc.model.config import ModelConfig
    from constrained_dnc.model.constraints import AbstractConstraint
    from constrained_dnc.model.controllers import AbstractController, ControllerStep
    from constrained_dnc.model.dnc import DNC, DNCState
    from constrained_dnc.model.dnc_memory import DNCMemory
    from constrained_dnc.model.growing import Growing
    from constrained_dnc.model.losses import total_loss
    from constrained_dnc.model.memory import AbstractMemory, NoMemory
    from constrained_dnc.model.ntm_memory import NTMMemory
    from constrained_dnc.parts import APPROACHES, Approach, Part, Softmax, get_approach, parse_part
    from constrained_dnc.tasks.contract import check_task
    from constrained_dnc.tasks.numeral import AbstractNumeralTask
    from constrained_dnc.tasks.problems import AbstractProblemTask
    from constrained_dnc.tasks.registry import get_task, task_names
    from constrained_dnc.tasks.task import AbstractTask, Batch, Scores
    from constrained_dnc.tasks.tokens import AbstractTokenTask
    from constrained_dnc.training.hub import from_pretrained, push_to_hub, save_pretrained
    from constrained_dnc.training.loggers import Observer, Snapshot
    from constrained_dnc.training.loop import resume, train
    from constrained_dnc.training.run import Run, load_pretrained, load_run, save_run

    __version__: str

__all__ = [
    "APPROACHES",
    "DNC",
    "AbstractConstraint",
    "AbstractController",
    "AbstractMemory",
    "AbstractNumeralTask",
    "AbstractProblemTask",
    "AbstractTask",
    "AbstractTokenTask",
    "Approach",
    "Batch",
    "Certificate",
    "Config",
    "ControllerStep",
    "DNCMemory",
    "DNCState",
    "Digital",
    "Drift",
    "EvaluationConfig",
    "Extraction",
    "Growing",
    "Machine",
    "ModelConfig",
    "NTMMemory",
    "NoMemory",
    "Observer",
    "Part",
    "Run",
    "RunError",
    "Scores",
    "SettingError",
    "Snapshot",
    "Softmax",
    "TrainingConfig",
    "__version__",
    "build_dnc",
    "calibrate",
    "certify",
    "check_task",
    "choose_backend",
    "digitise",
    "distinct_states",
    "drift",
    "evaluate",
    "explore",
    "extract_machine",
    "fidelity",
    "from_pretrained",
    "get_approach",
    "get_task",
    "load_pretrained",
    "load_run",
    "make_config",
    "parse_part",
    "predict",
    "push_to_hub",
    "resume",
    "save_pretrained",
    "save_run",
    "state_count",
    "task_names",
    "total_loss",
    "train",
]

HOMES = {
    "parts": "APPROACHES Approach Part Softmax get_approach parse_part",
    "config": "Config EvaluationConfig TrainingConfig make_config",
    "errors": "SettingError RunError",
    "evaluation.digital": "Digital calibrate digitise state_count",
    "evaluation.prediction": "predict",
    "evaluation.scoring": "evaluate",
    "evaluation.states": "Drift distinct_states drift",
    "explorer.server": "explore",
    "machine.automaton": "Machine",
    "machine.certificate": "Certificate certify",
    "machine.extraction": "Extraction extract_machine",
    "machine.fidelity": "fidelity",
    "model.backend": "choose_backend",
    "model.build": "build_dnc",
    "model.config": "ModelConfig",
    "model.constraints": "AbstractConstraint",
    "model.controllers": "AbstractController ControllerStep",
    "model.dnc": "DNC DNCState",
    "model.growing": "Growing",
    "model.losses": "total_loss",
    "model.dnc_memory": "DNCMemory",
    "model.memory": "AbstractMemory NoMemory",
    "model.ntm_memory": "NTMMemory",
    "tasks.contract": "check_task",
    "tasks.numeral": "AbstractNumeralTask",
    "tasks.problems": "AbstractProblemTask",
    "tasks.tokens": "AbstractTokenTask",
    "tasks.registry": "get_task task_names",
    "tasks.task": "AbstractTask Batch Scores",
    "training.hub": "from_pretrained push_to_hub save_pretrained",
    "training.loop": "resume train",
    "training.loggers": "Observer Snapshot",
    "training.run": "Run load_pretrained load_run save_run",
}
"""The public names by module."""

if not TYPE_CHECKING:  # type checkers use the imports above, and so find typos

    def __getattr__(name: str) -> object:
        if name == "__version__":
            metadata = import_module("importlib.metadata")
            try:
                return metadata.version("constrained-dnc")
            except metadata.PackageNotFoundError:
                return "unknown"  # not installed
        for module, names in HOMES.items():
            if name in names.split():
                value = getattr(import_module(f"constrained_dnc.{module}"), name)
                globals()[name] = value  # later accesses skip this function
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
