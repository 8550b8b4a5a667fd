"""The process that trains: its signals, and its cache of compiled programs.

SIGINT, SIGTERM and SIGHUP (a closed terminal) finish the iteration and write a checkpoint before
the process exits.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import jax

MIN_COMPILE_TIME = "jax_persistent_cache_min_compile_time_secs"
SIGNALS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP"):  # not on Windows
    SIGNALS.append(signal.SIGHUP)


class Stop:
    """The signal that the process received, if any."""

    signal: signal.Signals | None = None

    def remember(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal by remembering it."""
        self.signal = signal.Signals(number)

    def raise_signal(self) -> None:
        """Raise KeyboardInterrupt or SystemExit(128 + number) if there was a signal."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def postponed_signals() -> Iterator[Stop]:
    """Remember signals instead of raising; only the main thread can.

    A signal that is ignored stays ignored: SIGINT in a shell's background jobs, SIGHUP with nohup.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    handlers = {number: signal.signal(number, stop.remember) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


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
