"""The progress of a study: a bar for each run on a terminal, plain lines where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, TaskID, TimeRemainingColumn

from constrained_dnc.cli.progress import Display
from constrained_dnc.config import Config
from constrained_dnc.errors import RunError, printable
from constrained_dnc.study.layout import run_folder
from constrained_dnc.sweep.plan import Plan
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.folder import read_status

SECONDS_BETWEEN_LINES = 20.0
TRAINING_SHARE = 0.9
"""The share of a run's time that is training; the rest is evaluation and analysis."""


class SweepWatcher(Display):
    """Shows which runs are in progress, how far they have got, and how long the rest will take."""

    def __init__(self, plan: Plan, to_do: Sequence[Config], **options: Any):
        columns = ("{task.description}", BarColumn(20), TimeRemainingColumn())
        super().__init__(*columns, period=600.0, **options)  # a run reports only its checkpoints
        self.plan, self.to_do, self.ended_runs, self.shown = plan, to_do, 0, self.clock()
        self.iterations: dict[str, float] = {}  # done, by run id
        self.rows: dict[str, TaskID] = {}
        self._update_total()

    def ended(self, config: Config, state: str) -> None:
        """Called when a run has finished or diverged."""
        self._remove(config)
        of_all = f"{self.ended_runs}/{len(self.to_do)}"
        self.say(f"{of_all} {_name(config)}: {state}, time left {self.time_left()}")

    def failed(self, config: Config, reason: str) -> None:
        """Called when a run has failed, and so have its retries."""
        self._remove(config)
        self.say(f"{_name(config)} failed: {reason}")

    def look(self, running: list[Config]) -> None:
        """Read the progress of these runs, and show it now and then."""
        for config in running:
            with suppress(RunError):  # absent or corrupt: the run itself will say so
                folder = run_folder(self.plan.folder, config.run_id)
                self.iterations[config.run_id] = read_status(folder).iteration
        self._update_total()
        positions = {c: self._position(c) for c in running if c.run_id in self.iterations}
        if self.is_live:
            for config, position in positions.items():
                if config.run_id not in self.rows:
                    self.rows[config.run_id] = self.bars.add_task("", total=_work(config))
                row, done = self.rows[config.run_id], self.iterations[config.run_id]
                self.bars.update(row, completed=done, description=escape(printable(position)))
        elif self.is_due(SECONDS_BETWEEN_LINES):
            under_way = ", ".join(positions.values()) or "nothing yet"
            self.say(f"time left {self.time_left()}; under way: {under_way}")

    def _position(self, config: Config) -> str:
        done, iterations = self.iterations[config.run_id], config.training.iterations
        position = "evaluating" if done >= iterations else f"{done}/{iterations}"
        return f"{_name(config)} {position}"

    def _remove(self, config: Config) -> None:
        self.ended_runs += 1
        self.iterations[config.run_id] = _work(config)
        if config.run_id in self.rows:
            self.bars.remove_task(self.rows.pop(config.run_id))
        self._update_total()

    def _update_total(self) -> None:
        self.bars.update(
            self.total.id,
            completed=sum(self.iterations.values()),
            total=sum(map(_work, self.to_do)),
            description=f"{self.ended_runs}/{len(self.to_do)} runs",
        )


def _work(config: Config) -> float:
    """The work of a run, evaluation and analysis included, in iterations."""
    return config.training.iterations / TRAINING_SHARE


def _name(config: Config) -> str:
    """A readable name of a run."""
    return f"{_task_name(config.task)} {config.approach.name} trial {config.seed}"


@cache
def _task_name(task: str) -> str:
    """The name of a task; cached, as the file of a user-defined one may disappear."""
    return get_task(task).name
