"""How many cores this process may use."""

from __future__ import annotations

import os

MAX_THREADS = 1024
"""More than any machine has cores for."""


def available_cores() -> int:
    """The cores this process is confined to, where the system can tell; else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
