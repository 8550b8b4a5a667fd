"""Progress on a terminal, or plain lines where there is none."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from constrained_dnc.training.observer import Observer, Snapshot

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_REDRAWS = 0.2


class Ticker(Observer):
    """Shows how far a command is, how fast, and how long it still takes."""

    def __init__(self, unit: str):
        self._unit = unit
        self._began: tuple[float, int] | None = None  # time and amount done at the first look
        self._shown = 0.0
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

    def show(self, done: float, total: float, notes: str) -> None:
        """Show that `done` of `total` is done, now and then."""
        now = time.monotonic()
        if self._began is None:
            self._began = (now, int(done))
        pause = SECONDS_BETWEEN_LINES if self._bar is None else SECONDS_BETWEEN_REDRAWS
        if now - self._shown < pause and done < total:
            return
        self._shown = now
        text = f"{self._speed(done, total, now)}, {notes}"
        if self._bar is not None:
            self._bar.update(self._row, completed=done, total=total, description=text)
        else:
            print(f"{self._unit} {done:g}/{total:g}, {text}", flush=True)

    def _speed(self, done: float, total: float, now: float) -> str:
        assert self._began is not None
        then, done_then = self._began
        if done == done_then or now == then:
            return "-/s, time left -"
        rate = (done - done_then) / (now - then)
        left = timedelta(seconds=round((total - done) / rate))
        return f"{rate:.3g}/s, time left {left}"
