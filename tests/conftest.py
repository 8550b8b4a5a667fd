"""Settings of all tests; pytest reads this before any test module."""

import atexit
import ctypes
import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

# Most of the time goes into compiling small programs that run once: compile them quickly.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    " --xla_cpu_use_fusion_emitters=false",
)

# What a test trains with is not to be trusted outside of tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

import jax
import psutil
from hypothesis import settings

# A shell starts what it runs in the background with interrupts ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]

collect_ignore_glob = ["*/conftest.py"]  # all of one name; they are read, but hold no doctests

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

# A program that any worker compiled, now or in an earlier session, is loaded in half the time.
jax.config.update("jax_compilation_cache_dir", str(ROOT / ".pytest_cache" / "compiled"))

RELEASE_AT, RELEASE_EVERY = 900_000_000, 300_000_000
"""Bytes in use at which compiled programs are released, and bytes more before the next time."""
release_at = RELEASE_AT


def pytest_runtest_setup() -> None:
    """Cache small programs too, also after a command that was run here chose otherwise."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def pytest_runtest_teardown() -> None:
    """Release compiled programs: JAX keeps each one, and each takes 1.5 MB, however small."""
    global release_at  # noqa: PLW0603
    process = psutil.Process()
    if process.memory_info().rss > release_at:
        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux":  # otherwise glibc keeps freed memory
            ctypes.CDLL(None).malloc_trim(0)
        release_at = max(RELEASE_AT, process.memory_info().rss + RELEASE_EVERY)
