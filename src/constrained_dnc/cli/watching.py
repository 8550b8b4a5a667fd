"""A sweep as people see it: a live table on a terminal, plain lines where there is none."""

from __future__ import annotations

import time
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from constrained_dnc.config import Config
from constrained_dnc.sweep.plan import MAX_ATTEMPTS, RUNS, Plan
from constrained_dnc.training.files import read_json
from constrained_dnc.training.run import STATUS

SECONDS_BETWEEN_LINES = 20.0


class SweepWatcher:
    """Shows which runs are under way, how far they are, and how long the rest takes."""

    def __init__(self, plan: Plan, workers: int, console: Console | None = None):
        self.plan = plan
        self.workers = workers
        self.console = console or Console()
        self.total = len(plan.to_do())
        self.ended_runs = 0
        self.began = time.monotonic()
        self.shown = self.began
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
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def ended(self, config: Config, state: str) -> None:
        self.ended_runs += 1
        self.say(f"{self.ended_runs}/{self.total} {name_of(config)}: {state}, {self.left([])}")

    def failed(self, config: Config, reasons: list[str]) -> None:
        if len(reasons) < MAX_ATTEMPTS:
            self.say(f"{name_of(config)} failed and is tried again: {reasons[-1]}")
        else:
            self.ended_runs += 1
            self.say(f"{name_of(config)} is given up after {MAX_ATTEMPTS} attempts: {reasons[-1]}")

    def look(self, running: list[Config]) -> None:
        now = time.monotonic()
        if self.live is not None:
            self.live.update(self.table(running))
        elif now - self.shown > SECONDS_BETWEEN_LINES:
            self.shown = now
            under_way = [
                f"{name_of(c)} {i}/{c.training.iterations}"
                for c in running
                if (i := self.iteration(c)) is not None
            ]
            self.say(f"{self.left(running)}; under way: {', '.join(under_way) or 'starting'}")

    def table(self, running: list[Config]) -> Table:
        table = Table(title=f"{self.ended_runs}/{self.total} runs, {self.left(running)}", box=None)
        for name in ("task", "approach", "trial", "iteration"):
            table.add_column(name, justify="right" if name == "iteration" else "left")
        for config in running:
            iteration = self.iteration(config)
            if iteration is not None:
                done = f"{iteration} / {config.training.iterations}"
                done = "evaluating" if iteration == config.training.iterations else done
                table.add_row(config.task, config.approach.name, str(config.seed), done)
        return table

    def iteration(self, config: Config) -> int | None:
        """How far a run is by its last status; None before it has begun."""
        path = self.plan.folder / RUNS / config.run_id / STATUS
        return int(read_json(path)["iteration"]) if path.exists() else None

    def left(self, running: list[Config]) -> str:
        """The time left, from the speed so far."""
        done = self.ended_runs + sum(
            (self.iteration(config) or 0) / config.training.iterations for config in running
        )
        elapsed = time.monotonic() - self.began
        if done == 0 or elapsed < 1:
            return "time left unknown yet"
        seconds = elapsed * (self.total - done) / done
        return f"about {timedelta(seconds=round(seconds))} left"


def name_of(config: Config) -> str:
    """A run as people call it."""
    return f"{config.task} {config.approach.name} trial {config.seed}"
