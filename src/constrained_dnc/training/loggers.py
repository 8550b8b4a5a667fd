"""Who is told what happens in training: an observer, and TensorBoard, W&B or Trackio."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from constrained_dnc.config import LOGGERS, Config, LoggerChoice, as_dict
from constrained_dnc.errors import RunError, SettingError, first_line, one_of
from constrained_dnc.training.folder import TENSORBOARD
from constrained_dnc.training.metrics import finite_or_none

if TYPE_CHECKING:
    from constrained_dnc.training.run import Run

logger = logging.getLogger("constrained_dnc")

Log: TypeAlias = Callable[[int, Mapping[str, float | int | None]], None]
MODULES: dict[LoggerChoice, str] = {
    "tensorboard": "tensorboardX",
    "wandb": "wandb",
    "trackio": "trackio",
}
PROJECT = "constrained-dnc"


@dataclass(frozen=True)
class Snapshot:
    """The progress after an iteration."""

    iteration: int
    """The updates so far, skipped ones included."""
    iterations: int
    """The updates of the whole run."""
    loss: float
    """The loss of this iteration's batch, those of the constraints included."""
    running_unseen_loss: float | None
    """The running mean of the task loss at the unseen length; None before the first measurement."""
    best_iteration: int | None
    """The iteration at which that mean was lowest."""
    skipped_updates: int
    """Updates that were not finite, and were not made."""


class Observer:
    """Receives messages, metrics and progress of a training; subclass it for a logger or a display.

    All methods are called between two iterations, in the thread that trains. An exception ends the
    training; the run can be resumed.
    """

    def say(self, sentence: str) -> None:
        """Show a message.

        Args:
            sentence: One line, such as the backend that is used and why.
        """
        logger.info(sentence)

    def warn(self, sentence: str) -> None:
        """Show a warning.

        Args:
            sentence: One line, such as the reason why an update was skipped.
        """
        logger.warning(sentence)

    def log(self, iteration: int, values: Mapping[str, float | int | None]) -> None:
        """Record the values of a line of metrics.jsonl.

        Args:
            iteration: The iteration, from 1.
            values: Numbers by name; docs/runs.md lists them. They may be infinite or NaN.
        """

    def progress(self, snapshot: Snapshot) -> None:
        """Show how far training has got; called after every iteration.

        Args:
            snapshot: The progress.
        """


def require_loggers(names: Iterable[str]) -> None:
    """Refuse unknown loggers and those that are not installed."""
    for name in names:
        if name not in LOGGERS:
            raise SettingError("log", name, one_of(LOGGERS, name))
        if importlib.util.find_spec(MODULES[name]) is None:
            raise SettingError(
                f"--log {name} needs the package {MODULES[name]}; install it with "
                f"pip install 'constrained-dnc[{name}]'"
            )


@contextmanager
def open_loggers(names: Iterable[LoggerChoice], run: Run) -> Iterator[Log]:
    """A function that sends the values of an iteration to all loggers, which are closed at exit.

    Args:
        names: `tensorboard`, `wandb` or `trackio`; a name that is given twice counts once.
        run: The run that is trained. TensorBoard's and W&B's files are in its folder.
    """
    with ExitStack() as stack:
        logs = []
        for name in dict.fromkeys(names):
            try:
                log, close = (_tensorboard if name == "tensorboard" else _tracker)(name, run)
            except Exception as error:  # no network, no account
                raise RunError(f"--log {name} failed to start: {first_line(error)}") from error
            stack.callback(close)
            logs.append(log)

        def log_all(iteration: int, values: Mapping[str, float | int | None]) -> None:
            finite = {name: v for name, v in values.items() if finite_or_none(v) is not None}
            for log in logs:
                log(iteration, finite)

        yield log_all


def _tensorboard(name: LoggerChoice, run: Run) -> tuple[Log, Callable[[], None]]:
    """Event files of all lines so far and of those to come: a resume rewrites them."""
    folder = run.folder / TENSORBOARD
    shutil.rmtree(folder, ignore_errors=True)
    writer = importlib.import_module(MODULES[name]).SummaryWriter(str(folder))

    def log(iteration: int, values: Mapping[str, float | int | None]) -> None:
        for metric, value in values.items():
            if value is not None:
                writer.add_scalar(metric, value, iteration)

    for line in run.metrics:
        log(line.pop("iteration"), line)
    return log, writer.close


def _tracker(name: LoggerChoice, run: Run) -> tuple[Log, Callable[[], None]]:
    """Weights & Biases, or Trackio, which has its interface.

    A resumed run sends the lines after its last checkpoint again, unchanged.
    """
    module = importlib.import_module(MODULES[name])
    config: Config = run.config
    settings: dict[str, Any] = {
        "project": os.environ.get(f"{name.upper()}_PROJECT", PROJECT),
        "name": f"{run.folder.name}-{config.run_id}",
        "config": as_dict(config),
        "resume": "allow",
    }
    if name == "wandb":
        settings |= {"id": config.run_id, "dir": str(run.folder)}
    module.init(**settings)
    return lambda iteration, values: module.log(dict(values), step=iteration), module.finish
