"""JAX's persistent compilation cache."""

from __future__ import annotations

import os
from pathlib import Path

import jax

MIN_COMPILE_TIME = "jax_persistent_cache_min_compile_time_secs"


def use_compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder.

    JAX_COMPILATION_CACHE_DIR names another folder, and JAX_ENABLE_COMPILATION_CACHE=false
    switches it off.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        try:
            caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            folder = Path(caches) / "constrained-dnc" / "compiled"
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # not writable, or a user without a home
            return
        jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
    if MIN_COMPILE_TIME.upper() not in os.environ:
        # The losses compile in about a second each: worth keeping, however small.
        jax.config.update(MIN_COMPILE_TIME, 0.1)  # type: ignore[no-untyped-call]
