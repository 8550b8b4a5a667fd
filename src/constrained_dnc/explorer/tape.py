"""The tape: what stands in each channel at each step, as numbers and as a person writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from constrained_dnc.tasks.entries import label_with_number
from constrained_dnc.tasks.task import AbstractTask, Batch, CellLabels, as_floats


@dataclass(frozen=True)
class Row:
    """One channel through time; NaN where nothing stands."""

    name: str
    values: Float[np.ndarray, "time"]
    written: list[str]
    """In the cells, as a person writes it."""
    told: list[str]
    """The same with the network's number."""


def rows_of(
    task: AbstractTask, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"], sample: int
) -> list[Row]:
    """Inputs, targets where the loss looks, outputs."""
    inputs, targets = batch.inputs[:, sample], batch.targets[:, sample]
    looked_at = batch.mask[:, sample]
    given = as_floats(outputs)[:, sample]
    asked, wanted = task.cell_labels(batch.problems[sample]) or (None, {})
    read = task.output_labels(given, batch.length)
    if task.loss == "cross-entropy":
        given = 1 / (1 + np.exp(-given))  # the probability that the target is 1
    everywhere = np.ones(len(inputs), np.bool_)
    if asked is not None:  # a blank is a 0 to the network, as some numeral may be
        blank = [
            [not _spelled(asked, name, step) for name in task.input_channels]
            for step in range(len(inputs))
        ]
        inputs = np.where(blank, np.nan, inputs)
    targets = np.where(looked_at[:, np.newaxis], targets, np.nan)
    return [
        *_rows("in", task.input_channels, inputs, asked or {}, everywhere),
        *_rows("target", task.output_channels, targets, wanted, looked_at),
        *_rows("out", task.output_channels, given, read, looked_at),
    ]


def _rows(
    kind: str,
    channels: Sequence[str],
    values: Float[np.ndarray, "time channels"],
    spelling: CellLabels,
    written: Bool[np.ndarray, "time"],
) -> list[Row]:
    """A row for each channel, with writing at the steps in `written`."""
    rows = []
    for channel, column in zip(channels, values.T.tolist(), strict=True):
        texts = [_spelled(spelling, channel, step) for step in range(len(column))]
        cells = texts if channel in spelling else [_number(value) for value in column]
        rows.append(
            Row(
                f"{kind}: {channel}",
                np.array(column),
                [cell if here else "" for cell, here in zip(cells, written, strict=True)],
                [
                    label_with_number(text, value) or f"{value:.2f}"
                    for text, value in zip(texts, column, strict=True)
                ],
            )
        )
    return rows


def _spelled(spelling: CellLabels, channel: str, step: int) -> str:
    return spelling.get(channel, {}).get(step, "")


def _number(value: float) -> str:
    """To one decimal; nothing for NaN.

    >>> _number(0.52), _number(-0.01), _number(float("nan"))
    ('0.5', '0', '')
    """
    if np.isnan(value):
        return ""
    return np.format_float_positional(round(value, 1) + 0.0, trim="-")
