"""SciPy's BLAS for the kernel: its `sgemm`, and one thread in it while the kernel runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from scipy.linalg import cython_blas
from threadpoolctl import ThreadpoolController

sgemm: object = cython_blas.__pyx_capi__["sgemm"]


@cache
def _libraries() -> Any:
    return ThreadpoolController().select(user_api="blas")


_lock = threading.Lock()
_inside = 0
_limit: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread; the kernel is the only owner of threads.

    The number belongs to the whole process, so the first one in sets it and the last one out puts
    it back.
    """
    global _inside, _limit  # noqa: PLW0603
    with _lock:
        if _inside == 0:
            _limit = _libraries().limit(limits=1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
