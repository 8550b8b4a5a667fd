"""Signals are remembered, then raised."""

import os
import signal
import subprocess
import sys

import pytest

from constrained_dnc.training.process import interrupts_wait, postponed_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_ignored(number):
    """As in a shell's background jobs, and under nohup."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with postponed_signals() as stop:
            os.kill(os.getpid(), number)
        assert stop.signal is None
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_waiting_interrupt_comes_later_and_not_to_children():
    show = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    outputs = []

    def strike_and_start_a_child():
        with interrupts_wait():
            os.kill(os.getpid(), signal.SIGINT)
            child = [sys.executable, "-c", show]
            outputs.append(subprocess.run(child, capture_output=True, text=True, check=True).stdout)

    with pytest.raises(KeyboardInterrupt):
        strike_and_start_a_child()
    assert outputs == ["True\n"]
