"""The table of results: one row per run, selection rule, memory, inference and length.

`evaluate` returns it, run folders and studies store it as Parquet, reports read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from constrained_dnc.config import MASTERED, max_length_of
from constrained_dnc.files import corruption_named, read_table
from constrained_dnc.model.config import memory_order
from constrained_dnc.training.folder import EVALUATION

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
    "inference": "str",  # network or digital
    "length": "int64",
    "batches": "int64",  # 0 at a length that was given up
    "batch_size": "int64",
    "score_kind": "str",
    "score": "float64",
    "sequence_accuracy": "float64",
    "recall": "float64",  # search only
    "floor": "float64",  # the best score of an answer that ignores the input
    "state_count": "float64",  # k*; inf above 4096, NaN if not counted
}
"""Names and types of the columns. Scores are NaN at lengths that were given up."""


def results_frame(rows: Iterable[Mapping[str, object]] = ()) -> pd.DataFrame:
    """A table of results from rows that have all of its columns."""
    return pd.DataFrame(list(rows), columns=list(COLUMNS)).astype(COLUMNS)


def concat_results(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table from several, in their order."""
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else results_frame()


def sort_results(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Sort by columns; memories by their slots, a growing one last."""

    def key(column: pd.Series) -> pd.Series:
        return column.map(memory_order) if column.name == "memory" else column

    return frame.sort_values(columns, key=key, kind="stable", ignore_index=True)


def read_results_file(path: Path) -> pd.DataFrame:
    """The results in a Parquet file, with the columns and types of `COLUMNS`."""
    frame = read_table(path)
    with corruption_named(path):
        return frame[list(COLUMNS)].astype(COLUMNS)


def stored_results(folder: Path) -> pd.DataFrame:
    """The results in the folder of a run; none if it was not evaluated."""
    path = folder / EVALUATION
    return read_results_file(path) if path.exists() else results_frame()


def max_length(rows: pd.DataFrame, column: str = "score") -> int:
    """The longest length with at least 95 %, 0 if there is none.

    Lengths at which an answer that ignores the input has 95 % do not count.

    Args:
        rows: results by length, of one run, selection rule, memory and inference.
        column: `score`, or `sequence_accuracy` for whole answers.
    """
    counted = rows[~(rows["floor"] >= MASTERED)]
    return max_length_of(dict(zip(counted["length"], counted[column], strict=True)))
