"""Progress on a terminal, or plain lines where there is none; both on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task
from rich.progress import TimeRemainingColumn as TimeLeft

from constrained_dnc.cli.terminal import console, print_stderr
from constrained_dnc.training.observer import Observer, Snapshot

SECONDS_BETWEEN_LINES, SECONDS_BETWEEN_REDRAWS = 10.0, 0.2
SPEED_PERIOD = 60.0
"""Seconds that a speed is averaged over."""


class ProgressBar(Observer):
    """Shows how far a command has got, how fast it is, and how long it will take."""

    def __init__(
        self,
        unit: str,
        screen: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._unit, self._clock, self._shown = unit, clock, -float("inf")
        screen = screen or console(stderr=True)
        self._is_live = screen.is_terminal and not screen.is_dumb_terminal
        columns: Any = (BarColumn(30), MofNCompleteColumn(), TimeLeft(), "{task.description}")
        self._progress = Progress(
            *columns,
            console=screen,
            transient=True,
            disable=not self._is_live,
            get_time=clock,
            speed_estimate_period=SPEED_PERIOD,
        )
        self._progress.add_task("starting", total=None)
        self._task = self._progress.tasks[0]

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def say(self, sentence: str) -> None:
        if self._is_live:
            self._progress.console.print(sentence, highlight=False, markup=False, emoji=False)
        else:
            print_stderr(sentence)

    def warn(self, sentence: str) -> None:
        self.say(f"warning: {sentence}")

    def progress(self, snapshot: Snapshot) -> None:
        notes = [f"loss {snapshot.loss:.4g}"]
        if snapshot.running_unseen_loss is not None:
            best = f"best at {snapshot.best_iteration}"
            notes.append(f"unseen {snapshot.running_unseen_loss:.4g}, {best}")
        if snapshot.skipped_updates:
            notes.append(f"skipped {snapshot.skipped_updates}")
        self.show(snapshot.iteration, snapshot.iterations, ", ".join(notes))

    def show(self, done: float | int, total: float | int, notes: str) -> None:
        """Show that `done` of `total` is done, unless something was shown a moment ago."""
        pause = SECONDS_BETWEEN_REDRAWS if self._is_live else SECONDS_BETWEEN_LINES
        if self._clock() - self._shown < pause and done < total:
            return
        self._shown = self._clock()
        self._progress.update(self._task.id, completed=done, total=total)
        speed = "-/s" if self._task.speed is None else f"{self._task.speed:.3g}/s"
        self._progress.update(self._task.id, description=f"{speed}, {notes}")
        if not self._is_live:
            left = f"{speed}, time left {time_left(self._task)}"
            print_stderr(f"{self._unit} {done:g}/{total:g}, {left}, {notes}")


def time_left(task: Task) -> str:
    """The time left as hours, minutes and seconds, or - as long as it is unknown."""
    seconds = task.time_remaining
    return "-" if seconds is None else str(timedelta(seconds=seconds))
