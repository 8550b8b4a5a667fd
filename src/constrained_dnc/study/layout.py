"""The folder of a study: the names of its files, and how they are read and written.

study.json                    requests, settings and the runs of the study
runs/RUN_ID/                  run directories
results/RUN_ID-ITERATIONS.parquet  the table of results, one row per rule, memory and length
analysis/RUN_ID.npz           arrays of the state-space and memory analyses
analysis/embeddings/HASH.npy  t-SNE, by the hash of the embedded states
failures/RUN_ID.txt           the traceback of a run that failed
lock                          held while study.json is changed
locks/RUN_ID                  held by the worker of a run
report/                       index.html, and its tables/ and figures/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from constrained_dnc.errors import RunError
from constrained_dnc.evaluation.results import concat_results, read_results_file
from constrained_dnc.files import (
    make_folder,
    read_arrays,
    remove_unfinished,
    write_arrays,
    write_table,
)
from constrained_dnc.training.loggers import logger

STUDY, LOCK = "study.json", "lock"
RUNS, RESULTS, ANALYSIS, FAILURES, LOCKS = "runs", "results", "analysis", "failures", "locks"
EMBEDDINGS = f"{ANALYSIS}/embeddings"
PAGE, TABLES, FIGURES = "report/index.html", "report/tables", "report/figures"


def flat_settings(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Settings by name, such as training.learning_rate."""
    return {
        f"{part}.{name}": value
        for part, values in settings.items()
        for name, value in values.items()
    }


def seeds_of(request: Mapping[str, Any]) -> Sequence[int]:
    """The seeds of a request in study.json; from 0 on unless they are listed."""
    seeds: Sequence[int] = request.get("seeds") or range(request["trials"])
    return seeds


def run_folder(study: Path, run_id: str) -> Path:
    """The directory of a run."""
    return study / RUNS / run_id


def results_file(study: Path, run_id: str, iterations: int) -> Path:
    """The results of a run after that many iterations; an extended run has another file."""
    return study / RESULTS / f"{run_id}-{iterations}.parquet"


def write_results(study: Path, run_id: str, iterations: int, results: pd.DataFrame) -> None:
    """Store the results of a run after that many iterations."""
    make_folder(study / RESULTS)
    write_table(results_file(study, run_id, iterations), results)


def read_results(study: Path, run_ids: Mapping[str, Any]) -> pd.DataFrame:
    """The results of the study's runs; other files are ignored with a warning."""
    tables = []
    for path in sorted((study / RESULTS).glob("*.parquet")):
        run_id, _, iterations = path.stem.rpartition("-")
        try:
            table = read_results_file(path)
        except RunError as error:
            logger.warning("%s; the file is ignored", error)
            continue
        if run_id in run_ids and iterations.isdecimal() and {*table["run_id"]} <= {run_id}:
            tables.append(table)
        else:
            logger.warning("%s is ignored: it does not belong to a run of this study", path)
    return concat_results(tables)


def analysis_file(study: Path, run_id: str) -> Path:
    """The file with the arrays of a run's analyses."""
    return study / ANALYSIS / f"{run_id}.npz"


def write_analysis(study: Path, run_id: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Store the arrays of a run's analyses."""
    make_folder(study / ANALYSIS)
    write_arrays(analysis_file(study, run_id), arrays)


def failure_file(study: Path, run_id: str) -> Path:
    """The file with the traceback of a failed run."""
    return study / FAILURES / f"{run_id}.txt"


def write_failure(study: Path, run_id: str, traceback: str) -> None:
    """Keep the traceback of a failed run."""
    make_folder(study / FAILURES)
    failure_file(study, run_id).write_text(traceback, encoding="utf-8")


def read_failures(study: Path, runs: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The runs that failed, each with the last line of its traceback as the reason."""
    for run_id, run in runs.items():
        path = failure_file(study, run_id)
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            yield {"run_id": run_id, **run, "reason": text.strip().rpartition("\n")[2]}


def quarantine_corrupt_files(study: Path) -> None:
    """Rename corrupt results and analyses, with a warning, so that they are computed again."""
    for path in sorted([*study.glob(f"{RESULTS}/*.parquet"), *study.glob(f"{ANALYSIS}/*.npz")]):
        try:
            read_arrays(path) if path.suffix == ".npz" else read_results_file(path)
        except RunError as error:
            path.replace(path.with_name(f"{path.name}.corrupt"))
            logger.warning("%s; renamed to %s.corrupt, to be computed again", error, path.name)


def remove_remains(study: Path, run_id: str) -> None:
    """Remove unfinished results and analyses of a killed worker; needs the lock of the run."""
    remove_unfinished(study / RESULTS, [f"{run_id}-*.parquet"])
    remove_unfinished(study / ANALYSIS, [f"{run_id}.npz"])
