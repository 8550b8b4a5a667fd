"""The progress of a study: a bar for each run on a terminal, plain lines where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, TaskID

from constrained_dnc.cli.progress import Display
from constrained_dnc.config import Config
from constrained_dnc.errors import RunError, printable
from constrained_dnc.study.layout import run_folder
from constrained_dnc.sweep.plan import Plan
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.folder import read_status

SECONDS_BETWEEN_LINES = 20.0
TRAINING_SHARE = 0.9
"""The share of a run's time that is training, if it was not measured."""


class SweepWatcher(Display):
    """Shows which runs are in progress, how far they have got, and how long the rest will take.

    Args:
        plan: the study.
        to_do: its runs that are to be completed.
        workers: how many of them run at a time.
        training_share: the share of a run's time that is training; the rest is evaluation and
            analysis.
    """

    def __init__(
        self,
        plan: Plan,
        to_do: Sequence[Config],
        workers: int = 1,
        training_share: float = TRAINING_SHARE,
        **options: Any,
    ):
        super().__init__("{task.description}", BarColumn(20), period=1.0, **options)
        self.plan, self.to_do, self.ended_runs, self.shown = plan, to_do, 0, self.clock()
        self.workers, self.training_share = min(workers, len(to_do)), training_share
        self.began = self.clock()
        self.iterations: dict[str, float] = {}  # done, by run id
        self.resumed: dict[str, float] = {}  # done before, by run id
        self.end: float | None = None  # the expected time
        self.rows: dict[str, TaskID] = {}
        self._update_total()

    def time_left(self) -> str:
        """By the mean speed since the start; - until every worker has reported progress."""
        if self.end is None:
            return "-"
        return str(timedelta(seconds=max(0, math.ceil(self.end - self.clock()))))

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
                self.resumed.setdefault(config.run_id, self.iterations[config.run_id])
        self._update_total()
        positions = {c: self._position(c) for c in running if c.run_id in self.iterations}
        if self.is_live:
            for config, position in positions.items():
                if config.run_id not in self.rows:
                    self.rows[config.run_id] = self.bars.add_task("", total=self._work(config))
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
        self.iterations[config.run_id] = self._work(config)
        if config.run_id in self.rows:
            self.bars.remove_task(self.rows.pop(config.run_id))
        self._update_total()

    def _update_total(self) -> None:
        done, total = sum(self.iterations.values()), sum(map(self._work, self.to_do))
        new = [it - self.resumed.get(name, 0) for name, it in self.iterations.items()]
        if done != self.total.completed and sum(map(bool, new)) >= max(1, self.workers):
            now = self.clock()
            self.end = now + (now - self.began) * (total - done) / sum(new)
        left = f"{self.ended_runs}/{len(self.to_do)} runs, time left {self.time_left()}"
        self.bars.update(self.total.id, completed=done, total=total, description=left)

    def _work(self, config: Config) -> float:
        """The work of a run, evaluation and analysis included, in iterations."""
        return config.training.iterations / self.training_share


def _name(config: Config) -> str:
    """A readable name of a run."""
    return f"{_task_name(config.task)} {config.approach.name} trial {config.seed}"


@cache
def _task_name(task: str) -> str:
    """The name of a task; cached, as the file of a user-defined one may disappear."""
    return get_task(task).name
