"""Signals are remembered, then obeyed."""

import os
import signal
import threading

import pytest

from constrained_dnc.training.stopping import postponed_signals


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
        stop.obey()


def test_nothing_to_obey():
    with postponed_signals() as stop:
        pass
    stop.obey()


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
