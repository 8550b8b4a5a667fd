"""A study on disk: what was asked for, the results of its runs, and what is missing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from constrained_dnc.choices import RULES, Memory
from constrained_dnc.errors import RunError, SettingError, first_line, require_path
from constrained_dnc.study.disk import (
    SCHEMA,
    STUDY,
    analysed_runs,
    analysis_file,
    is_study,
    read_analysis,
    read_failures,
    read_request,
    read_results,
)

FEW_TRIALS = 4
"""Up to so many have no middle half worth the name."""


@dataclass(frozen=True)
class Trial:
    """One trained instance (a trial) as its results describe it."""

    run_id: str
    task: str
    approach: str
    seed: int
    iterations: int
    skipped_updates: int
    status: str


@dataclass(frozen=True)
class Curves:
    """Score against length of all trials of one approach on one task.

    A length that a trial was not evaluated at is NaN. A score that came out non-finite counts as
    0: nothing was right.
    """

    task: str
    approach: str
    score_kind: str
    run_ids: tuple[str, ...]
    lengths: Int[np.ndarray, "lengths"]
    scores: Float[np.ndarray, "trials lengths"]

    @property
    def trials(self) -> int:
        return len(self.run_ids)

    @property
    def band(self) -> Float[np.ndarray, "3 lengths"]:
        """Lower end, median and upper end: the middle half of the trials, all of a few."""
        ends = (0, 1) if self.trials <= FEW_TRIALS else (0.25, 0.75)
        return np.quantile(self.scores, [ends[0], 0.5, ends[1]], axis=0)


@dataclass(frozen=True)
class Study:
    """A study directory. Everything is read when first asked for."""

    path: Path
    request: Mapping[str, Any]
    failures: tuple[Mapping[str, Any], ...]

    @cached_property
    def history(self) -> Mapping[str, np.ndarray]:
        """One array per column, of everything ever measured; an absent value is NaN.

        A run that became longer has the rows of its shorter training, too.
        """
        with _connect(self.path) as connection:
            stored = connection.table("results").columns
            columns = ", ".join(self._column(name, name in stored) for name in SCHEMA.names)
            order = "task, approach, seed, run_id, selection, memory, memory_size, length"
            relation = connection.sql(
                f"SELECT DISTINCT {columns} FROM results ORDER BY {order}, iterations"
            )
            return {name: np.asarray(array) for name, array in relation.fetchnumpy().items()}

    def _column(self, name: str, is_stored: bool) -> str:
        """A column of the results in SQL; where a memory size comes from may not be written."""
        if SCHEMA.field(name).type == pa.float64():
            return f"coalesce({name}, 'nan'::DOUBLE) AS {name}"
        if name != "memory":
            return name
        derived = f"""CASE memory_size WHEN {self.memory_size} THEN 'trained'
            WHEN {self.extended_memory_size or 0} THEN 'extended' ELSE 'given' END"""
        return f"{f'coalesce(memory, {derived})' if is_stored else derived} AS memory"

    @cached_property
    def results(self) -> Mapping[str, np.ndarray]:
        """The history without what a longer training of the same run has replaced."""
        run_ids, run = np.unique(self.history["run_id"].astype(str), return_inverse=True)
        longest = np.zeros(len(run_ids), np.int64)
        np.maximum.at(longest, run, self.history["iterations"])
        newest = self.history["iterations"] == longest[run]
        return {name: array[newest] for name, array in self.history.items()}

    @cached_property
    def runs(self) -> Mapping[str, Trial]:
        """By run id, every run that has results."""
        names = list(Trial.__dataclass_fields__)
        rows = zip(*(self.results[name].tolist() for name in names), strict=True)
        return {row[0]: Trial(*row) for row in dict.fromkeys(rows)}

    @property
    def memory_size(self) -> int:
        return int(self.request["memory_size"])

    @property
    def extended_memory_size(self) -> int | None:
        size = self.request.get("extended_memory_size")
        return None if size is None else int(size)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What all runs share, by name; empty for a study that does not say."""
        return dict(self.request.get("settings") or {})

    @property
    def training_lengths(self) -> tuple[int, int] | None:
        """The shortest and the longest input in training; None for a study that does not say."""
        names = ("training.min_length", "training.max_length")
        if not all(name in self.settings for name in names):
            return None
        return int(self.settings[names[0]]), int(self.settings[names[1]])

    @property
    def unseen_length(self) -> int | None:
        """The length whose loss selects parameters, and at which states are analysed."""
        length = self.settings.get("training.unseen_length")
        return None if length is None else int(length)

    @property
    def asked(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Trials and iterations asked for by (task, approach), the most of all requests."""
        most: dict[tuple[str, str], tuple[int, int]] = {}
        for part in self._requests:
            for key in itertools.product(part["tasks"], part["approaches"]):
                trials, iterations = most.get(key, (0, 0))
                more = int(part["trials"]), int(part.get("iterations", 0))
                most[key] = max(trials, more[0]), max(iterations, more[1])
        return most

    @property
    def _requests(self) -> Sequence[Mapping[str, Any]]:
        return list(self.request.get("requests", [self.request]))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks asked for, then any others that have results."""
        return tuple(dict.fromkeys([*self.request["tasks"], *self.results["task"].tolist()]))

    @property
    def approaches(self) -> tuple[str, ...]:
        """The approaches asked for, then any others that have results."""
        found = self.results["approach"].tolist()
        return tuple(dict.fromkeys([*self.request["approaches"], *found]))

    @property
    def selections(self) -> tuple[str, ...]:
        """How parameters were selected, the paper's way first, ways unknown here last."""
        found = sorted(set(self.results["selection"].tolist()))
        return tuple(dict.fromkeys([*(rule for rule in RULES if rule in found), *found]))

    def curves(
        self,
        memory: Memory = "trained",
        selection: str | None = None,
        iterations: int | None = None,
    ) -> dict[tuple[str, str], Curves]:
        """Score against length by (task, approach), with one kind of memory.

        Without a selection: the paper's ("unseen"), or the only one there is. Without a number of
        iterations: the longest training of every run.
        """
        if not self.selections:
            return {}
        chosen = self.selections[0] if selection is None else selection
        column = self.results if iterations is None else self.history
        rows = (column["memory"] == memory) & (column["selection"] == chosen)
        if iterations is not None:
            rows &= column["iterations"] == iterations
        table = {name: array[rows] for name, array in column.items()}
        groups: dict[tuple[str, str], list[int]] = {}
        for row, key in enumerate(zip(table["task"], table["approach"], strict=True)):
            groups.setdefault(key, []).append(row)
        return {key: _curves(key, table, np.array(group)) for key, group in groups.items()}

    def analysis(self, run_id: str, *names: str) -> dict[str, np.ndarray]:
        """The named state-space and memory arrays of a run, as far as it has them."""
        path = analysis_file(self.path, run_id)
        if not path.exists():
            return {}
        try:
            arrays = read_analysis(path)
        except RunError as error:
            self.damaged[path.name] = str(error)
            return {}
        return {name: arrays[name] for name in names if name in arrays}

    @cached_property
    def damaged(self) -> dict[str, str]:
        """What is wrong with files of analyses, by name, as far as they have been read."""
        return {}

    def _asked_iterations(self, run: Trial) -> int:
        """The most of the requests that this trial is part of."""
        return max(
            (
                int(part.get("iterations", 0))
                for part in self._requests
                if run.task in part["tasks"]
                and run.approach in part["approaches"]
                and run.seed < part["trials"]
            ),
            default=0,
        )

    def missing(self) -> list[str]:
        """One sentence for everything that was asked for and has no results yet."""
        sentences = []
        kinds: dict[Memory, str] = {"trained": "results"}
        if self.extended_memory_size is not None:
            kinds["extended"] = "results with extended memory"
        if self.curves("growing"):  # an earlier version has none
            kinds["growing"] = "results with a growing memory"
        for memory, name in kinds.items():
            curves = self.curves(memory)
            for key, (trials, _) in self.asked.items():
                found = curves[key].trials if key in curves else 0
                if found < trials:
                    sentences.append(f"{', '.join(key)}: {found} of {trials} trials have {name}.")
        for run in self.runs.values():
            iterations = self._asked_iterations(run)
            if run.iterations < iterations and run.status != "diverged":
                sentences.append(
                    f"{run.task}, {run.approach}, trial {run.seed}: measured after "
                    f"{run.iterations} of {iterations} iterations."
                )
        without = self.runs.keys() - analysed_runs(self.path)
        if without:
            sentences.append(
                f"{len(without)} of {len(self.runs)} runs have no state-space and memory analysis."
            )
        again = "left out; `cdnc reproduce` makes it again"
        return sentences + [f"{problem}: {again}." for problem in self.damaged.values()]


def read_study(path: str | Path) -> Study:
    """Open a study directory, finished or not."""
    require_path("study", path)
    path = Path(path)
    if not is_study(path):
        raise SettingError("study", str(path), f"a directory with a {STUDY}")
    return Study(path, read_request(path), tuple(read_failures(path)))


def query(path: str | Path, sql: str) -> pa.Table:
    """The answer to a question in SQL about the table `results` of a study."""
    study = read_study(path)
    if not sql.strip():
        raise SettingError("sql", sql, "one SQL query over the table results, such as FROM results")
    import duckdb  # noqa: PLC0415 - slow to import

    with _connect(study.path) as connection:
        try:
            (statement,) = connection.extract_statements(sql)
            return connection.sql(statement.query).to_arrow_table()
        except (duckdb.Error, pa.ArrowException, AttributeError, TypeError) as error:
            reason = first_line(error)
        except ValueError:
            reason = "not none, not several"
    raise SettingError("sql", sql, f"one SQL query over the table results ({reason})")


def _connect(path: Path) -> Any:
    """A connection that sees all results of a study as the table `results`, and nothing else."""
    import duckdb  # noqa: PLC0415 - slow to import

    connection = duckdb.connect(config={"python_enable_replacements": False})
    connection.from_arrow(read_results(path)).create("results")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _curves(
    key: tuple[str, str], table: Mapping[str, np.ndarray], rows: Int[np.ndarray, "rows"]
) -> Curves:
    # Rows are ordered by seed, so trials are too.
    run_ids = list(dict.fromkeys(table["run_id"][rows].tolist()))
    trial = np.array([run_ids.index(run_id) for run_id in table["run_id"][rows]])
    lengths, position = np.unique(table["length"][rows], return_inverse=True)
    scores = np.full((len(run_ids), len(lengths)), np.nan)
    scores[trial, position] = np.nan_to_num(table["score"][rows], nan=0.0, posinf=0.0, neginf=0.0)
    kind = str(table["score_kind"][rows[0]])
    return Curves(key[0], key[1], kind, tuple(run_ids), lengths, scores)
