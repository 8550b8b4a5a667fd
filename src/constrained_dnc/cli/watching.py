"""The progress of a study: a bar for each run on a terminal, plain lines where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TimeRemainingColumn

from constrained_dnc.cli.progress import time_left
from constrained_dnc.cli.terminal import console
from constrained_dnc.config import Config
from constrained_dnc.errors import RunError, printable
from constrained_dnc.study.layout import run_folder
from constrained_dnc.sweep.plan import Plan
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.run import read_status

SECONDS_BETWEEN_LINES = 20.0
SPEED_PERIOD = 600.0
"""Seconds that a speed is averaged over: a run reports only its checkpoints."""
TRAINING_SHARE = 0.9
"""Of the time a run takes; the rest is evaluation and analysis."""


class SweepWatcher:
    """Shows which runs are in progress, how far they have got, and how long the rest will take."""

    def __init__(
        self,
        plan: Plan,
        to_do: Sequence[Config],
        screen: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.plan, self.to_do, self.clock = plan, to_do, clock
        self.console = screen or console(stderr=True)
        self.iterations: dict[str, float] = {}  # done, by run id
        self.rows: dict[str, TaskID] = {}
        self.ended_runs, self.shown = 0, clock()
        columns: Any = ("{task.description}", BarColumn(20), TimeRemainingColumn())
        self.progress = Progress(
            *columns,
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
            get_time=clock,
            speed_estimate_period=SPEED_PERIOD,
        )
        self.progress.add_task(self._title(), total=sum(map(_work, to_do)))
        self.total = self.progress.tasks[0]

    def __enter__(self) -> SweepWatcher:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def ended(self, config: Config, state: str) -> None:
        """A run is finished or has diverged."""
        self._remove(config)
        of_all = f"{self.ended_runs}/{len(self.to_do)}"
        self._print(f"{of_all} {name_of(config)}: {state}, time left {time_left(self.total)}")

    def failed(self, config: Config, reason: str) -> None:
        """A run has failed, also when it was tried again."""
        self._remove(config)
        self._print(f"{name_of(config)} failed: {reason}")

    def look(self, running: list[Config]) -> None:
        """Read how far the runs are, and show it now and then."""
        for config in running:
            with suppress(RunError):  # absent or corrupt: the run itself will say so
                folder = run_folder(self.plan.folder, config.run_id)
                self.iterations[config.run_id] = read_status(folder).iteration
        self._update()
        started = [config for config in running if config.run_id in self.iterations]
        if self.console.is_terminal:
            self._draw(started)
        elif self.clock() - self.shown > SECONDS_BETWEEN_LINES:
            self.shown = self.clock()
            under_way = ", ".join(f"{name_of(c)} {self._position(c)}" for c in started)
            left = f"time left {time_left(self.total)}"
            self._print(f"{left}; under way: {under_way or 'nothing yet'}")

    def _draw(self, configs: list[Config]) -> None:
        for config in configs:
            if config.run_id not in self.rows:
                self.rows[config.run_id] = self.progress.add_task("", total=_work(config))
            text = escape(printable(f"{name_of(config)} {self._position(config)}"))
            done = self.iterations[config.run_id]
            self.progress.update(self.rows[config.run_id], completed=done, description=text)

    def _position(self, config: Config) -> str:
        done, iterations = self.iterations[config.run_id], config.training.iterations
        return "evaluating" if done >= iterations else f"{done}/{iterations}"

    def _remove(self, config: Config) -> None:
        self.ended_runs += 1
        self.iterations[config.run_id] = _work(config)
        if config.run_id in self.rows:
            self.progress.remove_task(self.rows.pop(config.run_id))
        self._update()

    def _update(self) -> None:
        done = sum(self.iterations.values())
        self.progress.update(self.total.id, completed=done, description=self._title())

    def _title(self) -> str:
        return f"{self.ended_runs}/{len(self.to_do)} runs"

    def _print(self, sentence: str) -> None:
        with suppress(OSError):  # a full standard error is not the end of a study
            text = printable(sentence)
            self.console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _work(config: Config) -> float:
    """What a run takes, in iterations."""
    return config.training.iterations / TRAINING_SHARE


def name_of(config: Config) -> str:
    """A readable name of a run."""
    return f"{_task_name(config.task)} {config.approach.name} trial {config.seed}"


@cache
def _task_name(task: str) -> str:
    """What a task calls itself; a user-defined one's file may be gone the next time."""
    return get_task(task).name
