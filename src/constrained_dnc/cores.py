"""The number of cores."""

from __future__ import annotations

import os

MAX_THREADS = 1024
"""The largest accepted number of threads."""


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
