"""Progress on a terminal, or plain lines where there is none; both on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.text import Text

from constrained_dnc.cli.terminal import print_stderr
from constrained_dnc.errors import printable
from constrained_dnc.training.loggers import Observer, Snapshot

SECONDS_BETWEEN_LINES, SECONDS_BETWEEN_REDRAWS = 10.0, 0.2


class Display:
    """Progress bars, the first for the total; speeds are averaged over `period` seconds."""

    def __init__(
        self,
        *columns: Any,
        period: float,
        screen: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        screen = screen or Console(stderr=True)
        self.clock, self.shown = clock, -float("inf")
        self.is_live = screen.is_terminal and not screen.is_dumb_terminal
        self.bars = Progress(
            *columns,
            console=screen,
            transient=True,
            disable=not self.is_live,
            get_time=clock,
            speed_estimate_period=period,
        )
        self.bars.add_task("starting", total=None)
        self.total = self.bars.tasks[0]

    def __enter__(self) -> Any:
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def say(self, sentence: str) -> None:
        """Print a line; if that fails, the command goes on."""
        if not self.is_live:
            print_stderr(sentence)
        else:
            with suppress(OSError):
                self.bars.console.print(Text(printable(sentence)))

    def is_due(self, seconds: float) -> bool:
        """Whether nothing was shown for that long; if so, the clock starts again."""
        if self.clock() - self.shown < seconds:
            return False
        self.shown = self.clock()
        return True

    def time_left(self) -> str:
        """The time left as hours, minutes and seconds, or - as long as it is unknown."""
        seconds = self.total.time_remaining
        return "-" if seconds is None else str(timedelta(seconds=seconds))


class ProgressBar(Display, Observer):
    """Shows how far a command has got, how fast it is, and how long it will take."""

    def __init__(self, unit: str, **options: Any):
        self.unit = unit
        columns = (BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn())
        super().__init__(*columns, "{task.description}", period=60.0, **options)

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
        pause = SECONDS_BETWEEN_REDRAWS if self.is_live else SECONDS_BETWEEN_LINES
        if not self.is_due(pause if done < total else 0.0):
            return
        self.bars.update(self.total.id, completed=done, total=total)
        speed = "-/s" if self.total.speed is None else f"{self.total.speed:.3g}/s"
        self.bars.update(self.total.id, description=f"{speed}, {notes}")
        if not self.is_live:
            left = f"{speed}, time left {self.time_left()}"
            self.say(f"{self.unit} {done:g}/{total:g}, {left}, {notes}")
