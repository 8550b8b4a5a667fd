"""The persistent compilation cache: what was compiled once is not compiled again."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def use_compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder.

    JAX_COMPILATION_CACHE_DIR names another folder, and JAX_ENABLE_COMPILATION_CACHE=false
    switches it off.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        try:
            caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        except RuntimeError:  # a user without a home, as in some containers
            return
        folder = Path(caches) / "constrained-dnc" / "compiled"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:  # nowhere to keep them: everything is compiled anew each time
            return
        jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
    # The losses compile in about a second each: worth keeping, however small.
    setting = "jax_persistent_cache_min_compile_time_secs"
    jax.config.update(setting, 0.1)  # type: ignore[no-untyped-call]
