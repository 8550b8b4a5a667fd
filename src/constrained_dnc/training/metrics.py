"""metrics.jsonl: one line after another; a resume drops the lines after its checkpoint."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from constrained_dnc.files import failure_named, read_file, write_atomically


class MetricsFile:
    """The metrics of a run, open for appending.

    Args:
        path: The file; it is made if it is absent.
        iteration: The iteration of the checkpoint; lines of later ones are dropped.
        warn: Called with a sentence if another program changes the file.
    """

    def __init__(self, path: Path, iteration: int, warn: Callable[[str], None]):
        self._path, self._warn = path, warn
        content = read_file(path) if path.exists() else b""
        kept, self.last_iteration = _until(content, iteration)
        if kept != content or (content and path.stat().st_nlink > 1):  # a hard link in a copy
            write_atomically(path, kept)
        self._open()
        self._size = len(kept)

    def _open(self) -> None:
        with failure_named(self._path, "written"):
            self._file = open(self._path, "ab+", buffering=0)  # noqa: SIM115 - `close` closes it

    def close(self) -> None:
        self._file.close()

    def append(self, line: Mapping[str, float | int | None]) -> None:
        """Add one line; a value that is not finite is stored as null."""
        text = json.dumps({name: finite_or_none(value) for name, value in line.items()})
        content = text.encode() + b"\n"
        self._size += len(content)
        with failure_named(self._path, "written"):
            while content:
                content = content[self._file.write(content) :]

    def sync(self) -> None:
        """Flush to disk; restore the file if it was deleted or replaced."""
        with failure_named(self._path, "written"):
            os.fsync(self._file.fileno())
            opened = os.fstat(self._file.fileno())
            if not (self._path.exists() and os.path.samestat(opened, self._path.stat())):
                self._file.seek(0)
                write_atomically(self._path, self._file.read())
                self._file.close()
                self._open()
                self._warn(f"{self._path} was deleted or replaced during training and is restored")
        if opened.st_size != self._size:
            self._size = opened.st_size
            self._warn(f"{self._path} was changed by another program during training")


def _until(content: bytes, iteration: int) -> tuple[bytes, int]:
    """The complete lines before the first one of a later iteration, and the iteration they reach.

    >>> _until(b'{"iteration": 1}\\n{"ite\\n{"iteration": 3}\\n{"iteration": 4}\\n', 3)
    (b'{"iteration": 1}\\n{"ite\\n{"iteration": 3}\\n', 3)
    """
    size = last = 0
    for text in re.findall(rb"[^\n]*\n", content):
        found = _parsed(text).get("iteration", last)
        if found > iteration:
            break
        size, last = size + len(text), max(last, found)
    return content[:size], last


def _parsed(text: bytes) -> dict[str, Any]:
    """The values of a line; none if it is corrupt."""
    try:
        line = json.loads(text)
        return line if isinstance(line["iteration"], int) else {}
    except (ValueError, KeyError, TypeError):
        return {}


def parse_lines(path: Path, content: bytes, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """The complete lines of a metrics file; a corrupt one is skipped with a warning.

    >>> parse_lines(Path("m"), b'{"iteration": 1}\\n{"itera\\n{"iteration": 3}\\n{"iter', print)
    m: line 2 is corrupt and skipped
    [{'iteration': 1}, {'iteration': 3}]
    """
    lines = []
    for number, text in enumerate(content.split(b"\n")[:-1], 1):
        if line := _parsed(text):
            lines.append(line)
        else:
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
