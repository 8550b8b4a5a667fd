"""Signals are remembered, then raised; a compilation does not delay SIGTERM for long."""

import os
import signal
import subprocess
import sys
import time

import pytest

from constrained_dnc.training.process import interrupts_wait, postponed_signals


def test_an_interrupt_that_a_shell_ignores_stays_ignored():
    """A script's background jobs survive the Ctrl-C that ends what runs in front of them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with postponed_signals(pytest.fail) as stop:
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal is None
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


IN_COMPILED_CODE = """
import hashlib, sys
from constrained_dnc.training import process
process.SECONDS_TO_COMPILE = 1
with process.postponed_signals(lambda sentence: print(sentence, flush=True)) as stop:
    stop.is_compiling = sys.argv[1] == "compiling"
    print("begun", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**{exponent})
    stop.is_compiling = False
    print("done", stop.signal, flush=True)
"""


@pytest.mark.parametrize("state", ["compiling", "computing"])
def test_sigterm_ends_a_compilation_but_waits_for_an_iteration(state):
    program = IN_COMPILED_CODE.replace("{exponent}", "31 - 1" if state == "compiling" else "23")
    command = [sys.executable, "-c", program, state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        try:
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    if state == "compiling":
        assert process.returncode == 143
        assert output == "Stopped while compiling; run the same command to resume.\n"
    else:
        assert (process.returncode, output) == (0, "done 15\n")


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
