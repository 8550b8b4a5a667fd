"""The folder of a study: what its files are called, what they hold, how they are read and written.

study.json                    what was asked for
runs/RUN_ID/                  run directories
results/RUN_ID-ITERATIONS.parquet  scores, one row per rule, memory and length
analysis/RUN_ID.npz           arrays of the state-space and memory analyses
analysis/embeddings/HASH.npy  t-SNE, by the hash of the states it belongs to
attempts/RUN_ID.json          why attempts at a run failed
failures.json                 the runs that were given up
locks/RUN_ID                  held by whoever is working on a run
report/                       index.html, and its tables/ and figures/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from constrained_dnc.errors import LARGEST_SEED, RunError
from constrained_dnc.files import (
    make_folder,
    read_arrays,
    read_file,
    read_json,
    read_json_list,
    remove_unfinished,
    write_arrays,
    write_json,
)
from constrained_dnc.storage import Fields, is_count, read_table, require_fields, write_table

STUDY, FAILURES = "study.json", "failures.json"
RUNS, RESULTS, ANALYSIS, ATTEMPTS, LOCKS = "runs", "results", "analysis", "attempts", "locks"
EMBEDDINGS = f"{ANALYSIS}/embeddings"
PAGE, TABLES, FIGURES = "report/index.html", "report/tables", "report/figures"

SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("task", pa.string()),
        ("approach", pa.string()),
        ("seed", pa.int64()),
        ("iteration", pa.int64()),  # of the selected parameters
        ("selection", pa.string()),
        ("length", pa.int64()),
        ("memory_size", pa.int64()),
        ("memory", pa.string()),  # where the memory size comes from: a Memory, or given
        ("batches", pa.int64()),
        ("batch_size", pa.int64()),
        ("score_kind", pa.string()),
        ("score", pa.float64()),
        ("sequence_accuracy", pa.float64()),
        ("recall", pa.float64()),
        ("skipped_updates", pa.int64()),
        ("iterations", pa.int64()),  # trained so far
        ("status", pa.string()),
    ]
)
"""The columns of results, in a study and in a run directory.

Their values come from `_row` in evaluation/lengths.py; the scores are a task's `Scores`, averaged
in `MeanScores`. Results of earlier versions lack a new column: it belongs to `MAY_LACK`, too.
"""
SHARES = ("score", "sequence_accuracy", "recall")
"""Columns of results that hold shares of what is right; not finite if nothing could be scored."""
MAY_LACK = {"memory", "batches", "batch_size", *SHARES}
"""Columns of results without which a row still says what it is of."""


def run_folder(study: Path, run_id: str) -> Path:
    """The directory of a run."""
    return study / RUNS / run_id


def study_lock(study: Path) -> Path:
    """Held while study.json is changed."""
    return study / "lock"


def lock_file(study: Path, run_id: str) -> Path:
    """The lock of a run, which outlives the run directory's own: evaluation is under it, too."""
    return study / LOCKS / run_id


# study.json ---------------------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_name(value: Any) -> bool:
    """Text that tables and files can hold: JSON has letters that are none."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_name, value))


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_settings(value: Any) -> bool:
    """Plain values by name, lengths among them."""
    if not isinstance(value, dict) or any(isinstance(v, (dict, list)) for v in value.values()):
        return False
    return all(is_count(v) for name, v in value.items() if name.endswith("_length"))


def _is_size(value: Any) -> bool:
    return is_count(value) and value > 0


NEEDED: Fields = {
    "tasks": _is_names,
    "approaches": _is_names,
    "trials": is_count,
    "memory_size": _is_size,
}
REQUEST: Fields = {
    "tasks": _is_names,
    "approaches": _is_names,
    "trials": is_count,
    "iterations": is_count,
}
KNOWN: Fields = {  # which values the other fields of study.json can have
    "preset": _is_text,
    "iterations": is_count,
    "extended_memory_size": lambda value: value is None or _is_size(value),
    "settings": _is_settings,
    "versions": _is_mapping,
    "requests": lambda value: isinstance(value, list) and all(map(_is_mapping, value)),
    "own_tasks": _is_mapping,
    "own_approaches": _is_mapping,
    "sources": _is_mapping,
}


def is_study(study: Path) -> bool:
    """Whether a folder is that of a study."""
    return (study / STUDY).is_file()


def read_request(study: Path) -> dict[str, Any]:
    """What study.json says; a field that the rest cannot work with is refused."""
    path = study / STUDY
    request = read_json(path)
    require_fields(path, request, NEEDED)
    known = {name: fits for name, fits in KNOWN.items() if name in request}
    require_fields(path, request, known)
    if "requests" in request:  # one of an earlier version may not say how long
        request["requests"] = [{"iterations": 0, **part} for part in request["requests"]]
    for part in request.get("requests", []):
        require_fields(path, part, REQUEST)
    return request


def write_request(study: Path, request: Mapping[str, Any]) -> None:
    """Write study.json."""
    write_json(study / STUDY, request)


# results ------------------------------------------------------------------------------------------


def results_table(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """Rows with all columns and no other: pyarrow would write null for one, and drop another."""
    found = list(rows)
    for row in found:
        if row.keys() != set(SCHEMA.names):
            wrong = ", ".join(sorted(row.keys() ^ set(SCHEMA.names)))
            raise ValueError(f"a row of results has columns too few or too many: {wrong}")
    return pa.Table.from_pylist(found, SCHEMA)


def write_results(study: Path, name: str, rows: pa.Table | Iterable[Mapping[str, object]]) -> None:
    """Store the rows of one run: all of them or, after a crash, none."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), SCHEMA)
    make_folder(study / RESULTS)
    write_table(study / RESULTS / f"{name}.parquet", table)


def read_results(study: Path) -> pa.Table:
    """The rows of all runs.

    Files are opened by name: whatever their names are, they are not patterns.
    """
    files = sorted((study / RESULTS).glob("*.parquet"))
    return pa.concat_tables([SCHEMA.empty_table(), *map(_read_rows, files)])


def _read_rows(path: Path) -> pa.Table:
    """The rows of a file; those that do not say what they are of are refused, and wild scores."""
    table = read_table(path, SCHEMA)
    for name in table.column_names:
        if name not in MAY_LACK and table[name].null_count:
            raise RunError(f"{path} cannot be read: {name} is missing")
    for name in SHARES:
        values = np.asarray(table[name].to_numpy(), np.float64)
        wrong = values[np.isfinite(values) & ((values < 0) | (values > 1))]
        if wrong.size:
            raise RunError(f"{path} cannot be read: {name} is {wrong[0]:g}, not from 0 to 1")
    return table


def results_name(run_id: str, iterations: int) -> str:
    """What the rows of a run are called; those of a shorter training keep a name of their own."""
    return f"{run_id}-{iterations}"


def results_of(study: Path, run_id: str) -> dict[int, Path]:
    """The files with rows of a run, by the number of iterations that it was asked for."""
    files = (study / RESULTS).glob(f"{run_id}-*.parquet")
    numbers = {file.stem.removeprefix(f"{run_id}-"): file for file in files}
    return {int(number): file for number, file in numbers.items() if number.isdecimal()}


def evaluated_in(file: Path, run_id: str) -> set[tuple[str, str]]:
    """The rules and memories that results of a run are of; none if damaged, or of another run."""
    try:
        table = pq.read_table(file, columns=["run_id", "selection", "memory"])
    except (OSError, pa.ArrowException):
        return set()
    run_ids, *pairs = (column.to_pylist() for column in table.columns)
    return set(zip(*pairs, strict=True)) if set(run_ids) <= {run_id} else set()


def _require_own_results(path: Path) -> None:
    """Refuse results of another run, or of a shorter training, than their name says."""
    run_id, _, asked = path.stem.rpartition("-")
    table = _read_rows(path)
    columns = (table[name].to_pylist() for name in ("run_id", "status", "iterations"))
    for found, status, iterations in set(zip(*columns, strict=True)):
        if found not in (run_id, path.stem):  # an earlier version had no iterations in the name
            raise RunError(f"{path} is of another run: {found}")
        is_short = status == "finished" and asked.isdecimal() and iterations < int(asked)
        if found == run_id and is_short:
            raise RunError(f"{path} is of a shorter training: {iterations} iterations")


# analysis -----------------------------------------------------------------------------------------

BINS = 20
"""Of the histograms of memory modes."""
ANALYSED = {  # by name, the kinds of dtype, the shape and the largest value that can be
    "states": ("f", (None, None, None), 1e30),
    "explained_variance": ("f", (), 1.001),
    "curvature": ("f", (), 2.001),
    "encoding_steps": ("iu", (), 2.0**31),
    **{
        f"{mode}_mode_{phase}": ("iu", (BINS,), 2.0**53)
        for mode in ("write", "read")
        for phase in ("encoding", "decoding")
    },
}


def analysis_file(study: Path, run_id: str) -> Path:
    """Where the arrays of a run's analyses are."""
    return study / ANALYSIS / f"{run_id}.npz"


def analysed_runs(study: Path) -> set[str]:
    """The runs that have analyses, by their ids."""
    return {file.stem for file in (study / ANALYSIS).glob("*.npz")}


def write_analysis(study: Path, run_id: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Store the arrays of a run's analyses."""
    make_folder(study / ANALYSIS)
    write_arrays(analysis_file(study, run_id), {**arrays, "run_id": np.array(run_id)})


def read_analysis(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a run's analyses; those of another run are refused, earlier ones do not say."""
    arrays = read_arrays(path)
    run_id = str(arrays.pop("run_id", path.stem))
    if run_id != path.stem:
        raise RunError(f"{path} is of another run: {run_id:.60}")
    for name, array in arrays.items():
        if name in ANALYSED and not _is_like(array, *ANALYSED[name]):
            raise RunError(f"{path} cannot be read: {name} is {array!r:.60}")
    if not 0 <= int(arrays.get("encoding_steps", 0)) <= len(arrays.get("states", [])):
        raise RunError(f"{path} cannot be read: encoding_steps is {arrays['encoding_steps']}")
    return arrays


def _is_like(array: np.ndarray, kinds: str, shape: Sequence[int | None], most: float) -> bool:
    """Whether an array has a kind and a shape (None: any length), and no wild value.

    A single number may be NaN: nothing could be computed.
    """
    if array.dtype.kind not in kinds or array.ndim != len(shape):
        return False
    if any(size not in (None, found) for size, found in zip(shape, array.shape, strict=True)):
        return False
    is_absent = array.ndim == 0 and array.dtype.kind == "f" and bool(np.isnan(array))
    return is_absent or bool((np.abs(array) <= most).all())


def embedding_file(study: Path, digest: str) -> Path:
    """Where the embedding of states is kept, by their hash."""
    return study / EMBEDDINGS / f"{digest}.npy"


# failures -----------------------------------------------------------------------------------------


ABOUT_ATTEMPTS: Fields = {
    "task": _is_name,
    "approach": _is_name,
    "seed": lambda value: type(value) is int and 0 <= value <= LARGEST_SEED,
    "iterations": is_count,
    "reasons": _is_texts,
    "last_traceback": _is_texts,
}


def read_attempts(study: Path, run_id: str) -> dict[str, Any] | None:
    """Why attempts at a run failed, and which run it is; None if none ever did."""
    path = study / ATTEMPTS / f"{run_id}.json"
    return _read_attempts(path) if path.exists() else None


def all_attempts(study: Path) -> Iterator[dict[str, Any]]:
    """The same for every run."""
    return map(_read_attempts, sorted((study / ATTEMPTS).glob("*.json")))


def _read_attempts(path: Path) -> dict[str, Any]:
    values = read_json(path)
    require_fields(path, values, {"run_id": lambda value: value == path.stem, **ABOUT_ATTEMPTS})
    return values


def write_attempts(study: Path, attempts: Mapping[str, Any]) -> None:
    """Store why attempts at a run failed."""
    make_folder(study / ATTEMPTS)
    write_json(study / ATTEMPTS / f"{attempts['run_id']}.json", attempts)


def read_failures(study: Path) -> list[dict[str, Any]]:
    """The runs that were given up."""
    path = study / FAILURES
    failures = read_json_list(path) if path.exists() else []
    if not all(isinstance(failure, dict) for failure in failures):
        raise RunError(f"{path} cannot be read: it is not a list of JSON objects")
    return failures


def write_failures(study: Path, failures: Sequence[Mapping[str, Any]]) -> None:
    """Write down the runs that were given up."""
    write_json(study / FAILURES, failures)


def quarantine_corrupt_files(study: Path) -> list[str]:
    """Give damaged files another name, so that they are made again; a sentence for each."""
    for part in (study, *(study / name for name in (RESULTS, ANALYSIS, EMBEDDINGS, ATTEMPTS))):
        remove_unfinished(part)
    readers: dict[str, Callable[[Path], object]] = {
        f"{RESULTS}/*.parquet": _require_own_results,
        f"{ANALYSIS}/*.npz": read_analysis,
        f"{ATTEMPTS}/*.json": _read_attempts,
        FAILURES: lambda path: read_failures(path.parent),
    }
    sentences = []
    for pattern, read in readers.items():
        for path in sorted(study.glob(pattern)):
            try:
                read(path)
            except RunError as error:
                read_file(path)  # what the system does not give us may be whole: end here
                aside = path.with_name(f"{path.name}.damaged")
                path.replace(aside)
                sentences.append(f"{error}; it is now called {aside.name} and is made again")
    return sentences
