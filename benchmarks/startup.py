"""Processor time from an empty process to the end of a command that computes nothing.

python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys

REPEATS = 7
COMMAND = "from constrained_dnc.cli import main; main({arguments})"
STARTS = {  # what is started: (Python code, seconds of processor time that are promised)
    "python alone": ("", None),
    "import constrained_dnc": ("import constrained_dnc", 0.3),
    **{
        f"cdnc {name}": (COMMAND.format(arguments=[name]), promised)
        for name, promised in (("--help", 0.3), ("--version", 0.3), ("show", 1.0), ("zoo", 1.0))
    },
    "cdnc show sort": (COMMAND.format(arguments=["show", "sort"]), None),
}


def processor_seconds(code: str) -> float:
    """User and system time of a process and its children, the fastest of several."""
    times = []
    for _ in range(REPEATS):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        times.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    return min(times)


if __name__ == "__main__":
    for name, (code, promised) in STARTS.items():
        bar = "" if promised is None else f"   (below {promised} s)"
        print(f"{name:24} {processor_seconds(code):5.2f} s{bar}")
