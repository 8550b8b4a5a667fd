"""SIGINT and SIGTERM: finish the iteration, write a checkpoint, then do what the signal asks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = b"\x1b[?25h\n"  # a progress bar hides it
_ending = threading.Lock()


class Stop:
    """Whether, and by which signal, the process was asked to stop."""

    signal: signal.Signals | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Remember the signal; also its handler."""
        self.signal = signal.Signals(number)

    def raise_signal(self) -> None:
        """Raise what the signal would have raised: exit codes 130 and 143."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def postponed_signals() -> Iterator[Stop]:
    """Remember signals instead of dying of them; only the main thread can.

    Also an interrupt that a shell ignores for what it starts in the background: `kill -INT` means
    it, and what stops here loses nothing.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    with _unwatched():
        handlers = {number: signal.signal(number, stop.ask) for number in SIGNALS}
        try:
            yield stop
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    if not _ending.acquire(blocking=False):
        return  # the other of the two that call it is at it
    with suppress(OSError, ValueError):  # of a stream that is closed
        for stream in filter(None, (sys.stdout, sys.stderr)):
            if stream.isatty():
                os.write(stream.fileno(), SHOW_CURSOR)
                break
    if sys.stderr is not None:
        with suppress(OSError):
            os.write(2, b"cdnc: interrupted\n")
    os._exit(128 + number)


@contextmanager
def exit_on_sigint() -> Iterator[None]:
    """Let Ctrl-C end the process with one line, also during imports, which an exception can crash.

    Nothing is lost: files are whole at any moment, and a training postpones its signals. A thread
    sees to it while the main one is in compiled code, where Python handles no signal.
    """
    with _handling(_end_at_once), _watching():
        yield


@contextmanager
def _watching() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        os.close(writing)


@contextmanager
def _unwatched() -> Iterator[None]:
    """Hide signals from the watching thread: it may look only when their handler is gone."""
    before = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)


def _watch(reading: int) -> None:
    """End the process at an interrupt, unless it has another handler by now."""
    with open(reading, "rb", buffering=0) as signals:
        while number := signals.read(1):
            if signal.getsignal(number[0]) is _end_at_once:
                _end_at_once(number[0], None)


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, where something is to be closed."""
    with _handling(signal.default_int_handler):
        yield


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Keep Ctrl-C waiting, and let processes that are started meanwhile ignore it.

    A terminal sends it to all of them, and each would answer with a traceback of its own.
    """
    stop = Stop()
    with _handling(stop.ask):  # the mask is inherited, but other threads of ours have their own
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    stop.raise_signal()


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # as asked for by whoever started us
    ):
        yield
        return
    with _unwatched():
        before = signal.signal(signal.SIGINT, handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
