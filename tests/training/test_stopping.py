"""Signals are remembered, then raised."""

import os
import pty
import shlex
import signal
import subprocess
import sys
import threading
import time

import pytest

from constrained_dnc.training.stopping import SHOW_CURSOR, interrupts_wait, postponed_signals


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_signal_waits_and_the_old_handler_comes_back(number, raised):
    before = signal.getsignal(number)
    with postponed_signals() as stop:
        assert stop.signal is None
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert stop.signal == number
    assert signal.getsignal(number) is before
    with pytest.raises(raised):
        stop.raise_signal()


def test_nothing_to_raise():
    with postponed_signals() as stop:
        pass
    stop.raise_signal()


def test_other_threads_leave_handlers_alone():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def look():
        with postponed_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
@pytest.mark.parametrize(
    ("handling", "code", "said"),
    [
        ("nullcontext()", 130, "cdnc: interrupted\n"),
        ("interrupts_raise()", 7, ""),
        ("postponed_signals()", 9, ""),
    ],
)
def test_an_interrupt_ends_at_once_where_nothing_is_to_be_closed(handling, code, said, late):
    """Also when the thread that watches for it comes to look only after all is over."""
    program = f"""
import os, signal, sys, time
from contextlib import nullcontext
from constrained_dnc.training.stopping import *
code = 9
with exit_on_sigint():
    time.sleep(0.1)  # until the thread waits
    sys.setswitchinterval({60 if late else 0.005})
    try:
        with {handling}:
            os.kill(os.getpid(), signal.SIGINT)
            [None for _ in range(1000)]
    except KeyboardInterrupt:
        code = 7
    time.sleep(0.1)
sys.exit(code)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", said)


def test_an_interrupt_counts_also_where_a_shell_ignores_it():
    """As it does for what a script starts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with postponed_signals() as stop:
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_hidden_cursor_comes_back_on_the_terminal_of_the_errors():
    program = """
import os, signal
from constrained_dnc.training.stopping import exit_on_sigint
with exit_on_sigint():
    os.kill(os.getpid(), signal.SIGINT)
"""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=False)
    shown = os.read(ours, 1000)
    os.close(ours)
    os.close(theirs)
    assert (ended.returncode, ended.stdout) == (130, b"")
    assert shown.replace(b"\r", b"") == SHOW_CURSOR + b"cdnc: interrupted\n"


@pytest.mark.parametrize("errors", ["", "2>&-"], ids=["open", "closed"])
def test_an_interrupt_ends_compiled_code_too(errors):
    program = """
import hashlib
from constrained_dnc.training.stopping import exit_on_sigint
with exit_on_sigint():
    print("begun", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # most of an hour
"""
    command = f"exec {shlex.join([sys.executable, '-c', program])} {errors}"
    with subprocess.Popen(
        ["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            said = "" if errors else "cdnc: interrupted\n"
            assert process.communicate(timeout=60) == ("", said)
        finally:
            process.kill()
    assert process.returncode == 130


def test_a_waiting_interrupt_comes_later_and_not_to_children():
    show = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    told = []

    def strike_and_start_a_child():
        with interrupts_wait():
            os.kill(os.getpid(), signal.SIGINT)
            child = [sys.executable, "-c", show]
            told.append(subprocess.run(child, capture_output=True, text=True, check=True).stdout)

    with pytest.raises(KeyboardInterrupt):
        strike_and_start_a_child()
    assert told == ["True\n"]
