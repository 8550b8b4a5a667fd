"""Settings of all tests; pytest reads this before any test module."""

import os

# Most of the time goes into compiling small programs that run once: compile them quickly.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
)

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
