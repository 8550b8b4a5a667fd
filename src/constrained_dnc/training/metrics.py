"""metrics.jsonl: one line of JSON after the other, never changed once a checkpoint covers it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from jaxtyping import Float

from constrained_dnc.errors import RunError
from constrained_dnc.files import open_in_place, reason_of

MAX_SHOWN = 5
"""Of the damaged lines."""


class MetricsFile:
    """The open file; lines after the last checkpoint's are cut off on opening.

    Those before it are kept, damaged or not: `warn` is told what is wrong with them.
    """

    def __init__(
        self, path: Path, num_bytes: int, checksum: str | None, warn: Callable[[str], None]
    ):
        self._path = path
        try:
            self._file = open_in_place(path)
            self._file.seek(0)
            content = self._file.read(num_bytes)
            whole = content[: content.rfind(b"\n") + 1]  # a torn line has no end
            self._file.truncate(len(whole))
        except OSError as error:
            raise RunError(f"{path} cannot be written: {reason_of(error)}") from error
        self._digest = hashlib.sha256(whole)
        warn_of_damage(path, content, num_bytes, checksum, warn)

    def __enter__(self) -> MetricsFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, line: Mapping[str, float | int | None]) -> None:
        """Add one line; a value that is not finite is stored as null."""
        text = json.dumps({name: finite_or_none(value) for name, value in line.items()})
        content = text.encode() + b"\n"
        try:
            self._digest.update(content)
            while content:
                content = content[self._file.write(content) :]
        except OSError as error:
            raise RunError(f"{self._path} cannot be written: {reason_of(error)}") from error

    def sync(self) -> tuple[int, str]:
        """Flush all lines to disk; their number of bytes and their checksum."""
        try:
            os.fsync(self._file.fileno())
            return self._file.seek(0, os.SEEK_END), self._digest.hexdigest()
        except OSError as error:
            raise RunError(f"{self._path} cannot be written: {reason_of(error)}") from error


def parse_lines(content: bytes) -> tuple[list[dict[str, Any]], list[int]]:
    """The lines of a metrics file, and the numbers of those that are damaged.

    >>> parse_lines(b'{"iteration": 1}\\n{"itexation": 2}\\n{"iteration": 3}\\n{"iter')
    ([{'iteration': 1}, {'iteration': 3}], [2])
    """
    lines, damaged = [], []
    for number, text in enumerate(content.split(b"\n")[:-1], 1):  # a torn last one is left out
        line = _parse_line(text)
        if line is None:
            damaged.append(number)
        else:
            lines.append(line)
    return lines, damaged


def _parse_line(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or type(line.get("iteration")) is not int:
        return None
    values = line.values()
    return line if all(type(v) in (int, float, type(None)) for v in values) else None


def warn_of_damage(
    path: Path,
    content: bytes,
    num_bytes: int,
    checksum: str | None,
    warn: Callable[[str], None],
) -> None:
    """Say what of a metrics file is lost or damaged, if anything; no checksum, no check."""
    whole = content[: content.rfind(b"\n") + 1]
    damaged = parse_lines(whole)[1]
    if len(whole) < num_bytes:
        warn(f"{path} has lost {num_bytes - len(whole)} of {num_bytes} bytes; the rest is kept")
    elif not damaged and checksum not in (None, hashlib.sha256(content[:num_bytes]).hexdigest()):
        warn(f"{path} is damaged: its checksum does not match, some value was changed")
    if damaged:
        shown = ", ".join(map(str, damaged[:MAX_SHOWN]))
        more = f" and {len(damaged) - MAX_SHOWN} more" if len(damaged) > MAX_SHOWN else ""
        warn(f"{path} is damaged in line {shown}{more}; the rest is kept")


def mean_entropy(weights: Float[np.ndarray, "*steps slots"]) -> float:
    """The mean entropy, in nats, of weights scaled to a sum of 1; steps without weight left out.

    >>> round(mean_entropy(np.array([[0.1, 0.1], [0.5, 0.0], [0.0, 0.0]])) / math.log(2), 6)
    0.5
    """
    weights = np.asarray(weights, np.float64).reshape(-1, weights.shape[-1])
    totals = weights.sum(axis=-1, keepdims=True)
    shares = (weights / np.where(totals > 0, totals, 1))[totals[:, 0] > 0]
    logs = np.log(np.where(shares > 0, shares, 1))
    return float(-(shares * logs).sum(axis=-1).mean()) if len(shares) else 0.0


def finite_or_none(value: float | int | None) -> float | int | None:
    """What JSON can hold of a number."""
    return value if value is not None and math.isfinite(value) else None
