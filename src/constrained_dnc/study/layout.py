"""The folder of a study: what its files are called, how they are read and written.

study.json                    requests, settings and the runs of the study
runs/RUN_ID/                  run directories
results/RUN_ID-ITERATIONS.parquet  the table of results, one row per rule, memory and length
analysis/RUN_ID.npz           arrays of the state-space and memory analyses
analysis/embeddings/HASH.npy  t-SNE, by the hash of the states it belongs to
failures/RUN_ID.txt           the traceback of a run that failed
locks/RUN_ID                  held by the worker of a run
report/                       index.html, and its tables/ and figures/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from constrained_dnc.errors import RunError
from constrained_dnc.files import make_folder, read_arrays, read_json, write_arrays, write_json
from constrained_dnc.results import concat_results, read_results_file, write_results_file
from constrained_dnc.training.observer import logger

STUDY = "study.json"
RUNS, RESULTS, ANALYSIS, FAILURES, LOCKS = "runs", "results", "analysis", "failures", "locks"
EMBEDDINGS = f"{ANALYSIS}/embeddings"
PAGE, TABLES, FIGURES = "report/index.html", "report/tables", "report/figures"

RESULTS_NAME = re.compile(r"(?P<run_id>.+)-(?P<iterations>\d+)\.parquet")


def is_study(study: Path) -> bool:
    """Whether a folder is that of a study."""
    return (study / STUDY).is_file()


def read_request(study: Path) -> dict[str, Any]:
    """The content of study.json."""
    return read_json(study / STUDY)


def write_request(study: Path, request: Mapping[str, Any]) -> None:
    """Write study.json."""
    write_json(study / STUDY, request)


def run_folder(study: Path, run_id: str) -> Path:
    """The directory of a run."""
    return study / RUNS / run_id


def study_lock(study: Path) -> Path:
    """Held while study.json is changed."""
    return study / "lock"


def lock_file(study: Path, run_id: str) -> Path:
    """The lock of a run, which outlives the run directory's own: evaluation is under it, too."""
    return study / LOCKS / run_id


# results ------------------------------------------------------------------------------------------


def results_file(study: Path, run_id: str, iterations: int) -> Path:
    """Where the results of a run are; those of a shorter training keep a file of their own."""
    return study / RESULTS / f"{run_id}-{iterations}.parquet"


def write_results(study: Path, run_id: str, iterations: int, results: pd.DataFrame) -> None:
    """Store the results of a run that was trained for so many iterations."""
    make_folder(study / RESULTS)
    write_results_file(results_file(study, run_id, iterations), results)


def read_results(study: Path, run_ids: Mapping[str, Any]) -> pd.DataFrame:
    """The results of the study's own runs; a warning for every file that is not one of them."""
    tables = []
    for path in sorted((study / RESULTS).glob("*.parquet")):
        name = RESULTS_NAME.fullmatch(path.name)
        if name is None or name["run_id"] not in run_ids:
            logger.warning("%s is ignored: it is not a result of this study's runs", path)
            continue
        try:
            table = read_results_file(path)
        except RunError as error:
            logger.warning("%s; it is left out", error)
            continue
        if set(table["run_id"]) - {name["run_id"]}:
            logger.warning("%s is ignored: it holds results of another run", path)
            continue
        tables.append(table)
    return concat_results(tables)


# analysis -----------------------------------------------------------------------------------------


def analysis_file(study: Path, run_id: str) -> Path:
    """Where the arrays of a run's analyses are."""
    return study / ANALYSIS / f"{run_id}.npz"


def write_analysis(study: Path, run_id: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Store the arrays of a run's analyses."""
    make_folder(study / ANALYSIS)
    write_arrays(analysis_file(study, run_id), arrays)


def read_analysis(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a run's analyses."""
    return read_arrays(path)


def embedding_file(study: Path, digest: str) -> Path:
    """Where the embedding of states is kept, by their hash."""
    return study / EMBEDDINGS / f"{digest}.npy"


# failures -----------------------------------------------------------------------------------------


def failure_file(study: Path, run_id: str) -> Path:
    """Where the traceback of a failed run is."""
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
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
            reason = next((line for line in reversed(lines) if line.strip()), "")
            yield {"run_id": run_id, **run, "reason": reason}


def quarantine_corrupt_files(study: Path) -> list[str]:
    """Rename corrupt results and analyses, so that they are made again; a sentence for each."""
    readers: dict[str, Callable[[Path], object]] = {
        f"{RESULTS}/*.parquet": read_results_file,
        f"{ANALYSIS}/*.npz": read_analysis,
    }
    sentences = []
    for pattern, read in readers.items():
        for path in sorted(study.glob(pattern)):
            try:
                read(path)
            except RunError as error:
                path.replace(path.with_name(f"{path.name}.corrupt"))
                sentences.append(f"{error}; it is now called {path.name}.corrupt and is made again")
    return sentences
