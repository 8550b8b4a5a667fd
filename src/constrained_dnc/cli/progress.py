"""Progress on a terminal, or plain lines where there is none."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from constrained_dnc.cli.speed import RunningClock, Speed
from constrained_dnc.training.observer import Observer, Snapshot

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_REDRAWS = 0.2


class Ticker(Observer):
    """Shows how far a command is, how fast, and how long it still takes."""

    def __init__(self, unit: str):
        self._unit = unit
        self._clock, self._speed = RunningClock(), Speed()
        self._bar: Progress | None = None
        if sys.stdout.isatty():
            columns = (BarColumn(30), MofNCompleteColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=Console(), transient=True)
            self._row = self._bar.add_task("", total=None)

    def __enter__(self) -> Ticker:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, sentence: str) -> None:
        if self._bar is not None:
            self._bar.console.print(sentence, highlight=False, markup=False)
        else:
            print(sentence, flush=True)

    def warn(self, sentence: str) -> None:
        self.say(f"warning: {sentence}")

    def progress(self, snapshot: Snapshot) -> None:
        unseen = snapshot.running_unseen_loss
        notes = [f"loss {snapshot.loss:.4g}"]
        if unseen is not None:
            notes.append(f"unseen {unseen:.4g}, best at {snapshot.best_iteration}")
        if snapshot.skipped_updates:
            notes.append(f"skipped {snapshot.skipped_updates}")
        self.show(snapshot.iteration, snapshot.iterations, ", ".join(notes))

    def show(self, done: float | int, total: float | int, notes: str) -> None:
        """Show that `done` of `total` is done, now and then."""
        now, last = self._clock.now(), self._speed.last
        pause = SECONDS_BETWEEN_LINES if self._bar is None else SECONDS_BETWEEN_REDRAWS
        if last is not None and now - last[0] < pause and done < total:
            return
        self._speed.look(now, done)
        text = f"{self._pace(total - done)}, {notes}"
        if self._bar is not None:
            self._bar.update(self._row, completed=done, total=total, description=text)
        else:
            print(f"{self._unit} {done:g}/{total:g}, {text}", flush=True)

    def _pace(self, left: float | int) -> str:
        """Speed and time left; compilation at the start is soon forgotten."""
        rate = self._speed.rate
        if rate is None:
            return "-/s, time left -"
        return f"{rate:.3g}/s, time left {timedelta(seconds=round(left / rate))}"
