"""The table of results: one row per run, selection rule, memory and length.

`evaluate` returns it, run folders and studies store it as Parquet, reports read it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from constrained_dnc.errors import RunError, first_line
from constrained_dnc.files import read_file, write_atomically

COLUMNS: dict[str, str] = {
    "run_id": "str",
    "task": "str",
    "approach": "str",
    "seed": "int64",
    "selection": "str",
    "iteration": "int64",  # of the selected parameters
    "iterations": "int64",  # trained so far
    "status": "str",
    "skipped_updates": "int64",
    "memory": "str",  # a number of slots, or growing
    "length": "int64",
    "batches": "int64",  # 0 at a length that was given up
    "batch_size": "int64",
    "score_kind": "str",
    "score": "float64",
    "sequence_accuracy": "float64",
    "recall": "float64",  # search only
    "floor": "float64",  # the best score without a look at the input
}
"""Names and types of the columns. Shares of what is right are NaN where nothing was measured."""


def results_frame(rows: Iterable[Mapping[str, object]] = ()) -> pd.DataFrame:
    """A table of rows; every row has all columns and no other."""
    frame = pd.DataFrame(list(rows), columns=list(COLUMNS))
    return frame.astype(COLUMNS)


def concat_results(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table from several, in their order."""
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else results_frame()


def write_results_file(path: Path, frame: pd.DataFrame) -> None:
    """Store a table as Parquet: all of it or, after a crash, none."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    write_atomically(path, buffer.getvalue())


def read_results_file(path: Path) -> pd.DataFrame:
    """The table in a Parquet file."""
    content = read_file(path)
    try:
        frame = pd.read_parquet(io.BytesIO(content))[list(COLUMNS)]
        other = {name: kind for name, kind in COLUMNS.items() if frame[name].dtype != kind}
        return frame.astype(other) if other else frame
    except Exception as error:  # of many kinds, as a damaged byte leads anywhere
        raise RunError(f"{path} is corrupt: {first_line(error)}") from error


def with_failures_as_zero(results: pd.DataFrame) -> pd.DataFrame:
    """Count lengths that were given up, and scores that are not finite, as all wrong."""
    shares = results[["score", "sequence_accuracy"]]
    results = results.copy()
    results[shares.columns] = shares.where(np.isfinite(shares), 0.0)
    return results
