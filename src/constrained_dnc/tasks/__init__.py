"""Tasks: how problems are drawn, encoded, decoded and scored."""

from constrained_dnc.tasks.numeral import AbstractNumeralTask
from constrained_dnc.tasks.problems import AbstractProblemTask
from constrained_dnc.tasks.registry import get_task, task_names
from constrained_dnc.tasks.task import AbstractTask, Batch, Key, Scores
from constrained_dnc.tasks.tokens import AbstractTokenTask

__all__ = [
    "AbstractNumeralTask",
    "AbstractProblemTask",
    "AbstractTask",
    "AbstractTokenTask",
    "Batch",
    "Key",
    "Scores",
    "get_task",
    "task_names",
]
