"""SIGINT and SIGTERM: finish the iteration, write a checkpoint, then do what the signal asks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether, and by which signal, the process was asked to stop."""

    signal: signal.Signals | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Remember the signal; also its handler."""
        self.signal = signal.Signals(number)

    def obey(self) -> None:
        """Raise what the signal would have raised: exit codes 130 and 143."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def postponed_signals() -> Iterator[Stop]:
    """Remember signals instead of dying of them; only the main thread can."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    handlers = {number: signal.signal(number, stop.ask) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
