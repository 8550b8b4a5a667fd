"""metrics.jsonl: one line of JSON after the other, never changed once a checkpoint covers it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Float

from constrained_dnc.errors import RunProblem


class MetricsFile:
    """The open file; lines behind the last checkpoint's are cut off on opening."""

    def __init__(self, path: Path, num_bytes: int):
        path.touch()
        if path.stat().st_size < num_bytes:
            raise RunProblem(f"{path} is shorter than the {num_bytes} bytes of the checkpoint")
        os.truncate(path, num_bytes)
        self._path = path
        self._file = open(path, "ab")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> MetricsFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._file.close()
        except OSError as problem:  # what is still in the buffer of a full disk
            if error is None:
                raise RunProblem(f"{self._path} cannot be written: {problem.strerror}") from problem

    def append(self, line: Mapping[str, float | int | None]) -> None:
        """Add one line; a value that is not finite is stored as null."""
        text = json.dumps({name: _finite_or_none(value) for name, value in line.items()})
        try:
            self._file.write(text.encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise RunProblem(f"{self._path} cannot be written: {error.strerror}") from error

    def sync(self) -> int:
        """Bring all lines to the disk; their number of bytes."""
        os.fsync(self._file.fileno())
        return self._file.tell()


def mean_entropy(weights: Float[np.ndarray, "*steps slots"]) -> float:
    """The mean entropy, in nats, of weights scaled to a sum of 1; steps without weight left out.

    >>> round(mean_entropy(np.array([[0.1, 0.1], [0.5, 0.0], [0.0, 0.0]])) / np.log(2), 6)
    0.5
    """
    weights = np.asarray(weights, np.float64).reshape(-1, weights.shape[-1])
    totals = weights.sum(axis=-1, keepdims=True)
    shares = (weights / np.where(totals > 0, totals, 1))[totals[:, 0] > 0]
    logs = np.log(np.where(shares > 0, shares, 1))
    return float(-(shares * logs).sum(axis=-1).mean()) if len(shares) else 0.0


def _finite_or_none(value: float | int | None) -> float | int | None:
    return value if value is not None and math.isfinite(value) else None
