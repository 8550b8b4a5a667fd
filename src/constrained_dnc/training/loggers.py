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
    iterations: int
    loss: float
    running_unseen_loss: float | None
    best_iteration: int | None
    skipped_updates: int


class Observer:
    """Receives messages, metrics and progress; subclass it for a logger or a display."""

    def say(self, sentence: str) -> None:
        """Called with messages."""
        logger.info(sentence)

    def warn(self, sentence: str) -> None:
        """Called with warnings."""
        logger.warning(sentence)

    def log(self, iteration: int, values: Mapping[str, float | int | None]) -> None:
        """Called with every line that goes to metrics.jsonl."""

    def progress(self, snapshot: Snapshot) -> None:
        """Called after every iteration."""


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
    """A function that sends the values of an iteration to all loggers, which are closed at exit."""
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
            finite = {n: value for n, value in values.items() if finite_or_none(value) is not None}
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
