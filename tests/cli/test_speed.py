"""Speed and the clock that stands still while the process does."""

import os
import signal
import subprocess
import sys
import time

STOPPED = """
import select, sys, time
from constrained_dnc.cli.speed import RunningClock

clock = RunningClock()
began, wall = clock.now(), time.monotonic()
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    clock.now()
print(clock.now() - began, time.monotonic() - wall)
"""


def test_no_time_passes_while_the_process_is_stopped():
    command = [sys.executable, "-c", STOPPED]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(process.pid, signal.SIGCONT)
        answer, _ = process.communicate("now\n", timeout=60)
        running, wall = map(float, answer.split())
    assert wall - running > 1.3
