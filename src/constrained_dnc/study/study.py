"""A study: a folder of runs, and a file that says what they cannot.

study.json           what is wanted of every run; preset, command and date
runs/NAME/           a run each, see training/folder.py
embeddings/HASH.npy  t-SNE, by the hash of the embedded states
report/              index.html, and its tables/ and figures/
lock                 held while runs are added
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from constrained_dnc.config import INFERENCES, RULES, Config, shared_in_study
from constrained_dnc.errors import RunError, SettingError, require_path
from constrained_dnc.evaluation.results import (
    concat_results,
    read_results_file,
    results_frame,
    sort_results,
)
from constrained_dnc.evaluation.scoring import KEY, make_plan
from constrained_dnc.files import corruption_named, read_arrays, read_file, read_json
from constrained_dnc.model.config import memory_order
from constrained_dnc.study.trial import Wanted, memories_of
from constrained_dnc.training.folder import ANALYSES, CONFIG, EVALUATION, FAILURE
from constrained_dnc.training.loggers import logger
from constrained_dnc.training.run import Run, open_run

STUDY, LOCK, RUNS, EMBEDDINGS = "study.json", "lock", "runs", "embeddings"
FORMAT = 1
"""Of study.json."""
PAGE, TABLES, FIGURES = "report/index.html", "report/tables", "report/figures"
ORDER = ["task", "approach", "seed", "run_id", "selection", "memory", "inference", "length"]
ORDER.append("iterations")

Trial: TypeAlias = tuple[str, str, int]
"""The names of a task and an approach, and a seed: of each there is one run in a study."""


@dataclass(frozen=True)
class Study:
    """The folder of a study. Everything in it is read when first needed."""

    path: Path
    stored: Mapping[str, Any]
    """The content of study.json."""
    wanted: Wanted
    """What is wanted of every run."""

    @cached_property
    def members(self) -> dict[str, Run]:
        """The runs of the study by run id, first by seed, then by name."""
        return {run.config.run_id: run for run in find_runs(self.path)}

    @cached_property
    def history(self) -> pd.DataFrame:
        """All results of the study's runs, including those after fewer iterations."""
        tables = concat_results([*map(_results_of, self.members.values())])
        return sort_results(tables, ORDER)

    @cached_property
    def results(self) -> pd.DataFrame:
        """The results of every run after its longest training."""
        longest = self.history.groupby("run_id")["iterations"].transform("max")
        return self.history[self.history["iterations"] == longest].reset_index(drop=True)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Facts about every run that has results, by run id."""
        columns = ["run_id", "task", "approach", "seed", "iterations", "skipped_updates", "status"]
        return self.results[columns].drop_duplicates("run_id").set_index("run_id")

    @cached_property
    def failures(self) -> tuple[dict[str, Any], ...]:
        """The runs that failed: run_id, task, approach, seed, reason, and the traceback's file."""
        return tuple(self._failures())

    def _failures(self) -> Iterator[dict[str, Any]]:
        for run_id, run in self.members.items():
            path = run.folder / FAILURE
            if path.is_file() and not path.is_symlink():
                task, approach, seed = trial_of(run)
                reason = read_file(path).decode(errors="replace").strip().rpartition("\n")[2]
                origin = {"run_id": run_id, "task": task, "approach": approach, "seed": seed}
                yield {**origin, "reason": reason, "traceback": path}

    @cached_property
    def config(self) -> Config:
        """The config of a run: all have the same sizes, training and samples."""
        if not self.members:
            raise RunError(f"{self.path / RUNS} has no runs")
        return next(iter(self.members.values())).config

    @property
    def memory_size(self) -> int:
        """Slots of the memory in training."""
        return self.config.model.memory_size

    @cached_property
    def memories(self) -> tuple[str, ...]:
        """The memories that runs are scored with, as in the results; the trained one first."""
        sizes = {str(size) for run in self.members.values() for size in memories_of(run.config)}
        trained = str(self.memory_size)
        return tuple(sorted(sizes, key=lambda size: (size != trained, memory_order(size))))

    @property
    def training_lengths(self) -> tuple[int, int]:
        """The shortest and the longest input in training."""
        return self.config.training.min_length, self.config.training.max_length

    @property
    def unseen_length(self) -> int:
        """The length whose loss selects parameters, and at which states are analysed."""
        return self.config.training.unseen_length

    @cached_property
    def requested_runs(self) -> dict[Trial, int]:
        """The iterations that every run is to have."""
        return {trial_of(run): run.config.training.iterations for run in self.members.values()}

    @cached_property
    def requested(self) -> dict[tuple[str, str], tuple[int, int]]:
        """The number of runs and the most iterations by (task, approach)."""
        totals: dict[tuple[str, str], tuple[int, int]] = {}
        for (task, approach, _), iterations in self.requested_runs.items():
            trials, most = totals.get((task, approach), (0, 0))
            totals[task, approach] = trials + 1, max(most, iterations)
        return totals

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of all tasks."""
        return tuple(dict.fromkeys(task for task, _ in self.requested))

    @property
    def approaches(self) -> tuple[str, ...]:
        """The names of all approaches."""
        return tuple(dict.fromkeys(approach for _, approach in self.requested))

    @property
    def selections(self) -> tuple[str, ...]:
        """The selection rules that have results, the paper's first."""
        rules = set(self.results["selection"])
        return tuple(rule for rule in RULES if rule in rules)

    @property
    def provenance(self) -> dict[str, str]:
        """Versions and machines of all runs, and when the study began."""
        values: dict[str, dict[str, None]] = {}
        for run in self.members.values():
            stored = read_json(run.folder / CONFIG)
            for name, value in {**stored.get("platform", {}), **stored.get("versions", {})}.items():
                values.setdefault(name, {})[str(value)] = None
        begun = {"begun on": str(self.stored.get("created", ""))}
        return begun | {name: ", ".join(found) for name, found in values.items()}

    def analysis(self, run_id: str, *names: str) -> dict[str, np.ndarray]:
        """Arrays of a run's state-space and memory analyses, by default all.

        Those that are missing are left out; all of them, if the file is absent or corrupt.
        """
        try:
            arrays = read_arrays(self.members[run_id].folder / ANALYSES)
        except RunError:
            return {}
        return {name: arrays[name] for name in names or arrays if name in arrays}

    def missing(self) -> list[str]:
        """A sentence for everything that was requested and is not done yet."""
        sentences = []
        for memory in self.memories:
            measured = self.results[self.results["memory"] == memory].drop_duplicates("run_id")
            counts = measured.groupby(["task", "approach"]).size()
            kind = "" if memory == self.memories[0] else f" with memory {memory}"
            for key, (trials, _) in self.requested.items():
                if (count := int(counts.get(key, 0))) < trials:
                    have = f"{count} of {trials} trials have results{kind}"
                    sentences.append(f"{', '.join(key)}: {have}.")
        requested = self.requested_runs
        run: Any
        for run in self.runs.itertuples():
            iterations = requested.get((run.task, run.approach, run.seed), 0)
            if run.iterations < iterations and run.status != "diverged":
                sentences.append(
                    f"{run.task}, {run.approach}, trial {run.seed}: measured after "
                    f"{run.iterations} of {iterations} iterations."
                )
        without = [run for run in self.runs.index if not self.analysis(run)]
        if without and self.wanted.analyses:
            which = "have no readable analysis; resume the study to compute it"
            sentences.append(f"{len(without)} of {len(self.runs)} runs {which}.")
        return sentences


def read_study(path: str | Path) -> Study:
    """Open the folder of a study, finished or not."""
    require_path("study", path)
    path = Path(path)
    if not (path / STUDY).is_file():
        raise SettingError("study", str(path), f"a directory with a {STUDY}")
    stored = read_json(path / STUDY)
    return Study(path, stored, _read_wanted(path / STUDY, stored))


def _read_wanted(path: Path, stored: Mapping[str, Any]) -> Wanted:
    """What the content of a study.json wants of every run."""
    if stored.get("format", FORMAT) != FORMAT:
        raise RunError(f"{path} cannot be read: its format is {stored['format']}, not {FORMAT}")
    with corruption_named(path):
        rules, inferences = stored.get("rules", RULES), stored.get("inferences", ["network"])
        return Wanted(
            tuple(rule for rule in RULES if rule in rules),
            tuple(inference for inference in INFERENCES if inference in inferences),
            bool(stored.get("analyses", True)),
        )


def find_runs(study: Path) -> list[Run]:
    """The runs of a study by seed and name; what does not belong to it is named and ignored."""
    runs = []
    for folder in sorted((study / RUNS).glob("[!.]*")):
        try:
            runs.append(open_run(folder))
        except (RunError, SettingError) as error:
            logger.warning("%s; it is ignored", error)
    settings = {run.folder: json.dumps(shared_in_study(run.config)) for run in runs}
    ((common, _),) = Counter(settings.values()).most_common(1) or [("", 0)]
    trials: dict[Trial, Run] = {}
    for run in runs:
        other = trials.get(trial_of(run), run)
        if settings[run.folder] != common:
            logger.warning("%s is ignored: most runs beside it have other settings", run.folder)
        elif other is not run:
            logger.warning("%s is ignored: %s is of the same trial", run.folder, other.folder)
        else:
            trials[trial_of(run)] = run
    return sorted(trials.values(), key=lambda run: run.config.seed)


def trial_of(run: Run) -> Trial:
    """The names of a run's task and approach, and its seed."""
    return run.task_name, run.config.approach.name, run.config.seed


def _results_of(run: Run) -> pd.DataFrame:
    """The results of a run that its study asks for; other rows in its file are ignored.

    A run may be scored with other memories and lengths as well, by `cdnc evaluate`.
    """
    path = run.folder / EVALUATION
    if not path.exists():
        return results_frame()
    try:
        table = read_results_file(path)
    except RunError as error:
        logger.warning("%s; the file is ignored", error)
        return results_frame()
    config = run.config
    is_own = (table["run_id"] == config.run_id) & (table["seed"] == config.seed)
    is_own &= table["approach"] == config.approach.name
    is_own &= (table["task"] == run.task_name) & ~table.duplicated(KEY)
    is_own &= table["iterations"].between(0, config.training.iterations)
    is_own &= table["score"].isna() | table["score"].between(0, 1)
    if not is_own.all():
        logger.warning("%s: %s rows of it are not of this run", path, (~is_own).sum())
    plan = make_plan(config.evaluation, config.model.memory_size, memories=memories_of(config))
    grid = pd.MultiIndex.from_tuples([(str(row.memory), row.length) for row in plan])
    is_planned = pd.MultiIndex.from_frame(table[["memory", "length"]]).isin(grid)
    return table[is_own & is_planned]
