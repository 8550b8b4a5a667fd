"""metrics.jsonl: append-only; a resume truncates it to its size at the checkpoint."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from constrained_dnc.files import failure_named, write_atomically


class MetricsFile:
    """The open file, truncated to the `num_bytes` that the last checkpoint covers.

    `warn` is called if fewer are left.
    """

    def __init__(self, path: Path, num_bytes: int, warn: Callable[[str], None]):
        self._path, self._warn = path, warn
        with failure_named(self._path, "written"):
            self._file = open(path, "ab+", buffering=0)  # noqa: SIM115 - `close` closes it
            self._file.seek(0)
            complete = self._file.read(num_bytes).rfind(b"\n") + 1
            self._file.truncate(complete)
        if complete < num_bytes:
            lost = num_bytes - complete
            warn(f"{path} has lost {lost} of {num_bytes} bytes; the rest is kept")

    def close(self) -> None:
        self._file.close()

    def append(self, line: Mapping[str, float | int | None]) -> None:
        """Add one line; a value that is not finite is stored as null."""
        text = json.dumps({name: finite_or_none(value) for name, value in line.items()})
        content = text.encode() + b"\n"
        with failure_named(self._path, "written"):
            while content:
                content = content[self._file.write(content) :]

    def sync(self) -> int:
        """Flush to disk, restore the file if it was deleted, return its size in bytes."""
        with failure_named(self._path, "written"):
            os.fsync(self._file.fileno())
            size = self._file.seek(0, os.SEEK_END)
            current = os.fstat(self._file.fileno())
            if not (self._path.exists() and os.path.samestat(current, self._path.stat())):
                self._file.seek(0)
                write_atomically(self._path, self._file.read())
                self._file.close()
                self._file = open(self._path, "ab+", buffering=0)  # noqa: SIM115
                self._warn(f"{self._path} was deleted or replaced during training and is restored")
        return size


def parse_lines(path: Path, content: bytes, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """The complete lines of a metrics file; a corrupt one is skipped with a warning.

    >>> parse_lines(Path("m"), b'{"iteration": 1}\\n{"itera\\n{"iteration": 3}\\n{"iter', print)
    m: line 2 is corrupt and skipped
    [{'iteration': 1}, {'iteration': 3}]
    """
    lines = []
    for number, text in enumerate(content.split(b"\n")[:-1], 1):
        try:
            line = json.loads(text)
            lines.append({"iteration": line["iteration"], **line})
        except (ValueError, KeyError, TypeError):
            warn(f"{path}: line {number} is corrupt and skipped")
    return lines


def mean_entropy(weights: Float[np.ndarray, "*steps slots"]) -> float:
    """The mean entropy, in nats, of weights normalised to a sum of 1; all-zero steps are skipped.

    >>> round(mean_entropy(np.array([[0.1, 0.1], [0.5, 0.0], [0.0, 0.0]])) / math.log(2), 6)
    0.5
    """
    weights = np.asarray(weights, np.float64).reshape(-1, weights.shape[-1])
    totals = weights.sum(axis=-1, keepdims=True)
    shares = (weights / np.where(totals > 0, totals, 1))[totals[:, 0] > 0]
    logs = np.log(np.where(shares > 0, shares, 1))
    return float(-(shares * logs).sum(axis=-1).mean()) if len(shares) else 0.0


def finite_or_none(value: float | int | None) -> float | int | None:
    """None in place of infinity and NaN, which JSON lacks."""
    return value if value is not None and math.isfinite(value) else None
