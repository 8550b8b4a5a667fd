"""The process that trains: its signals, and its cache of compiled programs.

SIGINT and SIGTERM finish the iteration and write a checkpoint before the process exits.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import jax

MIN_COMPILE_TIME = "jax_persistent_cache_min_compile_time_secs"
SECONDS_TO_COMPILE = 8
"""After SIGTERM: cluster schedulers kill a job half a minute later, some after ten seconds."""


class Stop:
    """The signal that the process received, if any."""

    signal: signal.Signals | None = None
    is_compiling = False
    """Whether the main thread may be in XLA's compiler, where Python handles no signal."""

    def remember(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal by remembering it."""
        self.signal = signal.Signals(number)

    def raise_signal(self) -> None:
        """Raise KeyboardInterrupt or SystemExit(143) if there was a signal."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def postponed_signals(say: Callable[[str], None]) -> Iterator[Stop]:
    """Remember signals instead of raising; only the main thread can.

    A SIGINT that is ignored, as in a shell's background jobs, stays ignored. A process that is
    still compiling some seconds after SIGTERM exits, with a last message to `say`.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) != signal.SIG_IGN]
    handlers = {number: signal.signal(number, stop.remember) for number in numbers}
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_end_compilation, args=(reading, stop, say), daemon=True).start()
    try:
        yield stop
    finally:
        stop.is_compiling = False
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        os.close(writing)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end_compilation(reading: int, stop: Stop, say: Callable[[str], None]) -> None:
    """Exit if the process is still compiling some seconds after SIGTERM.

    Only iterations since the last checkpoint are lost, as every file is replaced in one step.
    """
    with open(reading, "rb", buffering=0) as signals:
        while number := signals.read(1):
            if number[0] != signal.SIGTERM:
                continue
            time.sleep(SECONDS_TO_COMPILE)
            if stop.is_compiling:
                say("Stopped while compiling; run the same command to resume.")
                os._exit(128 + signal.SIGTERM)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Postpone Ctrl-C, and let child processes started inside ignore it.

    A terminal sends it to all of them, and each would print a traceback.
    """
    stop = Stop()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before == signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, stop.remember)  # the mask does not cover other threads
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # children inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    stop.raise_signal()


def use_compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder.

    JAX_COMPILATION_CACHE_DIR names another folder, and JAX_ENABLE_COMPILATION_CACHE=false
    switches it off.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        try:
            caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            folder = Path(caches) / "constrained-dnc" / "compiled"
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # not writable, or a user without a home
            return
        jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
    if MIN_COMPILE_TIME.upper() not in os.environ:
        # The losses compile in about a second each: worth keeping, however small.
        jax.config.update(MIN_COMPILE_TIME, 0.1)  # type: ignore[no-untyped-call]
