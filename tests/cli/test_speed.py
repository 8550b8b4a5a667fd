"""Speed and the clock that stands still while the process does."""

import os
import signal
import subprocess
import sys
import time

STOPPED = """
import time
from constrained_dnc.cli.speed import RunningClock

clock = RunningClock()
began, wall = clock.now(), time.monotonic()
print("ready", flush=True)
while time.monotonic() - wall < 60 and clock.now() - began < 0.6:
    time.sleep(0.01)
print(clock.now() - began, time.monotonic() - wall)
"""


def test_no_time_passes_while_the_process_is_stopped():
    command = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(process.pid, signal.SIGCONT)
        running, wall = map(float, process.stdout.readline().split())
    assert wall - running > 1.3
