"""The tape: every channel at every step, as numbers and as symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from constrained_dnc.tasks.entries import label_with_number
from constrained_dnc.tasks.task import AbstractTask, Batch, CellLabels, as_floats


@dataclass(frozen=True)
class Row:
    """One channel through time; NaN where it is blank."""

    name: str
    values: Float[np.ndarray, "time"]
    labels: list[str]
    """The text in the cells."""
    hover: list[str]
    """The text on hovering: the label with the network's number."""


def rows_of(
    task: AbstractTask, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"], sample: int
) -> list[Row]:
    """Inputs, targets at the steps of the loss, outputs."""
    inputs, targets = batch.inputs[:, sample], batch.targets[:, sample]
    scored = batch.mask[:, sample]
    values = as_floats(outputs)[:, sample]
    input_labels, target_labels = task.cell_labels(batch.problems[sample]) or (None, {})
    output_labels = task.output_labels(values, batch.length)
    if task.loss == "cross-entropy":
        values = 1 / (1 + np.exp(-values))  # the probability that the target is 1
    if input_labels is not None:  # blanks are 0, as some numeral may be: only labels tell
        blank = [
            [not _label(input_labels, name, step) for name in task.input_channels]
            for step in range(len(inputs))
        ]
        inputs = np.where(blank, np.nan, inputs)
    targets = np.where(scored[:, np.newaxis], targets, np.nan)
    everywhere = np.ones_like(scored)
    return [
        *_rows("in", task.input_channels, inputs, input_labels or {}, everywhere),
        *_rows("target", task.output_channels, targets, target_labels, scored),
        *_rows("out", task.output_channels, values, output_labels, scored),
    ]


def _rows(
    kind: str,
    channels: Sequence[str],
    values: Float[np.ndarray, "time channels"],
    labels: CellLabels,
    labelled: Bool[np.ndarray, "time"],
) -> list[Row]:
    """A row for each channel, with labels at the steps in `labelled`."""
    rows = []
    for channel, column in zip(channels, values.T.tolist(), strict=True):
        texts = [_label(labels, channel, step) for step in range(len(column))]
        cells = texts if channel in labels else [_number(value) for value in column]
        cells = [cell if shown else "" for cell, shown in zip(cells, labelled, strict=True)]
        pairs = zip(texts, column, strict=True)
        hover = [label_with_number(text, value) or f"{value:.2f}" for text, value in pairs]
        rows.append(Row(f"{kind}: {channel}", np.array(column), cells, hover))
    return rows


def _label(labels: CellLabels, channel: str, step: int) -> str:
    return labels.get(channel, {}).get(step, "")


def _number(value: float) -> str:
    """A number to one decimal; an empty string for NaN.

    >>> _number(0.52), _number(-0.01), _number(float("nan"))
    ('0.5', '0', '')
    """
    if np.isnan(value):
        return ""
    return np.format_float_positional(round(value, 1) + 0.0, trim="-")
