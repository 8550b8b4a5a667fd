"""The progress of a study: a bar for each run on a terminal, plain lines where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, TaskID

from constrained_dnc.cli.progress import Display
from constrained_dnc.errors import RunError, printable
from constrained_dnc.training.folder import read_status
from constrained_dnc.training.run import Run

SECONDS_BETWEEN_LINES = 20.0
LOOKS_PER_SECOND = 100.0
"""At most so many files are opened a second: they may be on a disk that many share."""
TRAINING_SHARE = 0.9
"""The share of a run's time that is training; the rest is evaluation and analysis."""


class StudyWatcher(Display):
    """Shows which runs are in progress, how far they have got, and how long the rest will take.

    Args:
        to_do: the runs that are to be completed.
        workers: how many of them run at a time.
    """

    def __init__(self, to_do: Sequence[Run], workers: int = 1, **options: Any):
        super().__init__("{task.description}", BarColumn(20), period=1.0, **options)
        self.to_do, self.ended_runs, self.shown = to_do, 0, self.clock()
        self.workers = min(workers, len(to_do))
        self.began = self.clock()
        self.looked = -math.inf
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

    def ended(self, run: Run, state: str) -> None:
        """Called when a run has finished or diverged."""
        self._remove(run)
        of_all = f"{self.ended_runs}/{len(self.to_do)}"
        self.say(f"{of_all} {run.folder.name}: {state}, time left {self.time_left()}")

    def failed(self, run: Run, reason: str) -> None:
        """Called when a run has failed."""
        self._remove(run)
        self.say(f"{run.folder.name} failed: {reason}")

    def look(self, pending: list[Run]) -> None:
        """Read the progress of these runs, and show it now and then."""
        if self.clock() - self.looked < len(pending) / LOOKS_PER_SECOND:
            return
        self.looked = self.clock()
        for run in pending:
            with suppress(RunError):  # absent or corrupt: the run itself will say so
                self.iterations[run.config.run_id] = read_status(run.folder).iteration
                self.resumed.setdefault(run.config.run_id, self.iterations[run.config.run_id])
        self._update_total()
        positions = {
            run.config.run_id: (run, self._position(run))
            for run in pending
            if run.config.run_id in self.iterations
        }
        if self.is_live:
            for run_id, (run, position) in positions.items():
                if run_id not in self.rows:
                    self.rows[run_id] = self.bars.add_task("", total=self._work(run))
                row, done = self.rows[run_id], self.iterations[run_id]
                self.bars.update(row, completed=done, description=escape(printable(position)))
        elif self.is_due(SECONDS_BETWEEN_LINES):
            under_way = ", ".join(text for _, text in positions.values()) or "nothing yet"
            self.say(f"time left {self.time_left()}; under way: {under_way}")

    def _position(self, run: Run) -> str:
        done, iterations = self.iterations[run.config.run_id], run.config.training.iterations
        position = "evaluating" if done >= iterations else f"{done}/{iterations}"
        return f"{run.folder.name} {position}"

    def _remove(self, run: Run) -> None:
        self.ended_runs += 1
        self.iterations[run.config.run_id] = self._work(run)
        if run.config.run_id in self.rows:
            self.bars.remove_task(self.rows.pop(run.config.run_id))
        self._update_total()

    def _update_total(self) -> None:
        done, total = sum(self.iterations.values()), sum(map(self._work, self.to_do))
        new = [count - self.resumed.get(name, 0) for name, count in self.iterations.items()]
        if done != self.total.completed and sum(map(bool, new)) >= max(1, self.workers):
            now = self.clock()
            self.end = now + (now - self.began) * (total - done) / sum(new)
        left = f"{self.ended_runs}/{len(self.to_do)} runs, time left {self.time_left()}"
        self.bars.update(self.total.id, completed=done, total=total, description=left)

    def _work(self, run: Run) -> float:
        """The work of a run, evaluation and analysis included, in iterations."""
        return run.config.training.iterations / TRAINING_SHARE
