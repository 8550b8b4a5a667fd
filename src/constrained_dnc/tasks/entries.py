"""Entries of answers: rounding, and text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float


def round_off(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The nearest integer, halves to even; NaN where the value is not finite."""
    return np.where(np.isfinite(values), np.rint(values), np.nan)


def integer_or_none(value: float) -> int | None:
    """A rounded entry as a plain number.

    >>> integer_or_none(3.0), integer_or_none(float("nan"))
    (3, None)
    """
    return int(value) if np.isfinite(value) else None


def format_entries(entries: Sequence[int | None]) -> str:
    """Entries side by side.

    >>> format_entries((1, None, 3))
    '1 ? 3'
    """
    return " ".join("?" if entry is None else str(entry) for entry in entries)


def label_columns(
    channels: Sequence[str], columns: Iterable[Iterable[float]], first: int
) -> dict[str, dict[int, str]]:
    """The symbols of each channel by step, from the step `first` on.

    >>> label_columns(["result"], [(3.0, float("nan"))], 6)
    {'result': {6: '3', 7: '?'}}
    """
    return {
        channel: {
            step: format_entries((integer_or_none(value),))
            for step, value in enumerate(column, first)
        }
        for channel, column in zip(channels, columns, strict=True)
    }


def format_number(value: float | int | None) -> str:
    """A number with at most two decimals.

    >>> format_number(0.5), format_number(-0.001), format_number(None)
    ('0.5', '0', '?')
    """
    if value is None:
        return "?"
    return np.format_float_positional(round(value, 2) + 0.0, precision=2, trim="-")


def label_with_number(label: str, value: float) -> str:
    """A symbol, followed by the network's number in brackets if that differs.

    >>> label_with_number("3", 0.5), label_with_number("1", 1.0), label_with_number("", 0.0)
    ('3 (0.5)', '1', '')
    """
    number = np.format_float_positional(value, precision=2, trim="-")
    return f"{label} ({number})" if label and label != number else label
