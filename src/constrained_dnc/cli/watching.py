"""A sweep as people see it: a live table on a terminal, plain lines where there is none."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from constrained_dnc.cli.progress import screen
from constrained_dnc.cli.speed import RunningClock, Speed
from constrained_dnc.config import Config
from constrained_dnc.errors import RunError, printable
from constrained_dnc.study.layout import run_folder
from constrained_dnc.sweep.plan import Plan
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.disk import STATUS
from constrained_dnc.training.run import read_status

SECONDS_BETWEEN_LINES = 20.0
TRAINING_SHARE = 0.9
"""Of the time a run takes; the rest is evaluation and analysis."""


class SweepWatcher:
    """Shows which runs are under way, how far they are, and how long the rest takes."""

    def __init__(
        self, plan: Plan, to_do: Sequence[Config], workers: int, console: Console | None = None
    ):
        self.plan = plan
        self.workers = workers
        self.console = console or screen(error=True)
        self.total = len(to_do)
        self.ended_runs = 0
        self.running = list(to_do)
        self.clock = RunningClock()
        self.shown = self.clock.now()
        self.speeds: defaultdict[str, Speed] = defaultdict(Speed)  # by run id
        self.seconds_each: float | None = None  # of an iteration, when a run last moved on
        self.read: dict[str, tuple[tuple[int, int], int | None]] = {}  # by run id: file, iteration
        self.live = Live(console=self.console, transient=True) if self.console.is_terminal else None

    def __enter__(self) -> SweepWatcher:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def say(self, sentence: str) -> None:
        with suppress(OSError):  # a full standard error costs no study
            self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def ended(self, config: Config, state: str) -> None:
        self._one_less(config)
        self.say(f"{self.ended_runs}/{self.total} {name_of(config)}: {state}, {self.left()}")

    def failed(self, config: Config, reason: str) -> None:
        self._one_less(config)
        self.say(f"{name_of(config)} failed: {reason}")

    def _one_less(self, config: Config) -> None:
        self.ended_runs += 1
        self.running = [other for other in self.running if other != config]

    def look(self, running: list[Config]) -> None:
        self.running = running
        now, left = self.clock.now(), self.left()
        if self.live is not None:
            self.live.update(self.table(left))
        elif now - self.shown > SECONDS_BETWEEN_LINES:
            self.shown = now
            under_way = [
                f"{name_of(config)} {done}" for config in running if (done := self.progress(config))
            ]
            self.say(f"{left}; under way: {', '.join(under_way) or 'nothing yet'}")

    def table(self, left: str) -> Table:
        title = f"{self.ended_runs}/{self.total} runs, {left}"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for name in ("task", "approach", "trial", "iteration"):
            table.add_column(name, justify="right" if name == "iteration" else "left")
        for config in self.running:
            if done := self.progress(config):
                names = task_name(config.task), config.approach.name
                table.add_row(*(Text(printable(n)) for n in names), str(config.seed), done)
        return table

    def progress(self, config: Config) -> str:
        """How far a run is, for people; nothing before it has begun."""
        iteration, iterations = self.iteration(config), config.training.iterations
        if iteration is None:
            return ""
        return "evaluating" if iteration == iterations else f"{iteration}/{iterations}"

    def iteration(self, config: Config) -> int | None:
        """How far a run is by its last status; None before it has begun."""
        folder, iteration = run_folder(self.plan.folder, config.run_id), None
        try:
            about = (folder / STATUS).stat()
        except OSError:  # not there yet
            return None
        file = about.st_ino, about.st_mtime_ns
        if self.read.get(config.run_id, ((), None))[0] != file:
            with suppress(RunError):  # damaged: the run itself will say so
                iteration = read_status(folder).iteration
            self.read[config.run_id] = file, iteration
        return self.read[config.run_id][1]

    def left(self) -> str:
        """The time left, from how fast the runs under way go."""
        if not self.running:
            return "nothing left"
        self._look_at_runs()
        if self.seconds_each is None:
            return "time left unknown yet"
        seconds = [self._seconds_left(config, self.seconds_each) for config in self.running]
        most = max(sum(seconds) / self.workers, *seconds)
        return f"about {timedelta(seconds=round(most))} left" if most > 0 else "overdue"

    def _look_at_runs(self) -> None:
        now, moved = self.clock.now(), False
        for config in self.running:
            iteration, speed = self.iteration(config), self.speeds[config.run_id]
            if iteration is not None and (speed.last is None or iteration != speed.last[1]):
                speed.look(now, iteration)
                moved = True
        rates = [self.speeds[config.run_id].rate for config in self.running]
        if moved and any(rates):
            self.seconds_each = statistics.fmean(1 / rate for rate in rates if rate)

    def _seconds_left(self, config: Config, each: float) -> float:
        """What is left of a run since its last status; the end of it is evaluation."""
        moved_on, iteration = self.speeds[config.run_id].last or (self.clock.now(), 0.0)
        iterations = config.training.iterations / TRAINING_SHARE - iteration
        return max(0.0, iterations * each - (self.clock.now() - moved_on))


def name_of(config: Config) -> str:
    """A run as people call it."""
    return f"{task_name(config.task)} {config.approach.name} trial {config.seed}"


@cache
def task_name(task: str) -> str:
    """What a task calls itself; its file, if it has one, may be gone the next time."""
    return get_task(task).name
