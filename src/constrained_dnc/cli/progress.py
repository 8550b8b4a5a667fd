"""Progress on a terminal, or plain lines where there is none; both on standard error."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from constrained_dnc.cli.speed import RunningClock, Speed, StepTimes
from constrained_dnc.cli.telling import tell
from constrained_dnc.training.observer import Observer, Snapshot

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_REDRAWS = 0.2
WITHOUT_END = 100_000


def screen(*, error: bool = False) -> Console:
    """Where to print: as wide as the terminal, or without an end, so that nothing is ever cut."""
    console = Console(stderr=error)
    return console if console.is_terminal else Console(stderr=error, width=WITHOUT_END)


class Ticker(Observer):
    """Shows how far a command is, how fast, and how long it still takes."""

    def __init__(self, unit: str):
        self._unit = unit
        self._clock, self._speed, self._steps = RunningClock(), Speed(), StepTimes()
        self._bar: Progress | None = None
        console = screen(error=True)
        if console.is_terminal and not console.is_dumb_terminal:
            columns = (BarColumn(30), MofNCompleteColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=console, transient=True)
            self._row = self._bar.add_task("starting", total=None)

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
            self._bar.console.print(sentence, highlight=False, markup=False, emoji=False)
        else:
            tell(sentence)

    def warn(self, sentence: str) -> None:
        self.say(f"warning: {sentence}")

    def progress(self, snapshot: Snapshot) -> None:
        unseen = snapshot.running_unseen_loss
        notes = [f"loss {snapshot.loss:.4g}"]
        if unseen is not None:
            notes.append(f"unseen {unseen:.4g}, best at {snapshot.best_iteration}")
        if snapshot.skipped_updates:
            notes.append(f"skipped {snapshot.skipped_updates}")
        self._steps.look(self._clock.now(), snapshot.iteration)
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
            tell(f"{self._unit} {done:g}/{total:g}, {text}")

    def _pace(self, left: float | int) -> str:
        """Speed and time left; iterations that wait for a compilation do not count."""
        seconds = self._steps.seconds_each
        rate = self._speed.rate if seconds is None else 1 / seconds
        if rate is None:
            return "-/s, time left -"
        return f"{rate:.3g}/s, time left {timedelta(seconds=round(left / rate))}"
