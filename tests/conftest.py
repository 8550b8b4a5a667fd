"""Settings of all tests; pytest reads this before any test module."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

# Most of the time goes into compiling small programs that run once: compile them quickly.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    " --xla_cpu_use_fusion_emitters=false",
)

import jax
import pytest
from hypothesis import settings

# A shell starts what it runs in the background with interrupts ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore_glob = ["*/conftest.py"]  # all of one name; they are read, but hold no doctests

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

MANY_MAPPINGS = 20_000
"""Of the 65 530 that Linux gives a process; XLA dies without a word when there are no more."""


@pytest.fixture(autouse=True, scope="module")
def few_compiled_programs() -> Iterator[None]:
    """Every compiled program takes a few mappings of memory: release them now and then."""
    yield
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > MANY_MAPPINGS:
        jax.clear_caches()
