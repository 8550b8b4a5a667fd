"""A study as a report sees it: what was requested, the results so far, and what is missing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from constrained_dnc.config import RULES
from constrained_dnc.errors import RunError, SettingError, require_path
from constrained_dnc.evaluation.results import sort_results
from constrained_dnc.files import corruption_named, read_arrays, read_json
from constrained_dnc.study.layout import (
    STUDY,
    analysis_file,
    flat_settings,
    read_failures,
    read_results,
    seeds_of,
)

ORDER = ["task", "approach", "seed", "run_id", "selection", "memory", "inference", "length"]
ORDER.append("iterations")


@dataclass(frozen=True)
class Study:
    """A study directory. Everything is read when first needed."""

    path: Path
    request: Mapping[str, Any]
    """The content of study.json."""

    @cached_property
    def history(self) -> pd.DataFrame:
        """All results of the study's runs, including those after fewer iterations."""
        return sort_results(read_results(self.path, self.request["runs"]), ORDER)

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
        """The runs that failed: run_id, task, approach, seed, reason."""
        return tuple(read_failures(self.path, self.request["runs"]))

    @property
    def memory_size(self) -> int:
        """Slots of the memory in training."""
        return int(self.request["memories"][0])

    @property
    def memories(self) -> tuple[str, ...]:
        """The memories that runs are evaluated with, as in the results; the trained one first."""
        return tuple(self.request["memories"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of all runs by name, such as training.learning_rate."""
        return flat_settings(self.request["settings"])

    @property
    def training_lengths(self) -> tuple[int, int]:
        """The shortest and the longest input in training."""
        training = self.request["settings"]["training"]
        return int(training["min_length"]), int(training["max_length"])

    @property
    def unseen_length(self) -> int:
        """The length whose loss selects parameters, and at which states are analysed."""
        return int(self.request["settings"]["training"]["unseen_length"])

    @property
    def requested_runs(self) -> dict[tuple[str, str, int], int]:
        """The most iterations that were requested, by (task, approach, seed)."""
        most: dict[tuple[str, str, int], int] = {}
        for part in self._requests:
            for run in itertools.product(part["tasks"], part["approaches"], seeds_of(part)):
                most[run] = max(most.get(run, 0), part["iterations"])
        return most

    @property
    def requested(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Trials and the most iterations of all requests, by (task, approach)."""
        totals: dict[tuple[str, str], tuple[int, int]] = {}
        for (task, approach, _), iterations in self.requested_runs.items():
            trials, most = totals.get((task, approach), (0, 0))
            totals[task, approach] = trials + 1, max(most, iterations)
        return totals

    @property
    def _requests(self) -> Sequence[Mapping[str, Any]]:
        return self.request["requests"]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of all requests."""
        return tuple(dict.fromkeys(task for part in self._requests for task in part["tasks"]))

    @property
    def approaches(self) -> tuple[str, ...]:
        """The approaches of all requests."""
        return tuple(dict.fromkeys(name for part in self._requests for name in part["approaches"]))

    @property
    def selections(self) -> tuple[str, ...]:
        """The selection rules that have results, the paper's first."""
        rules = set(self.results["selection"])
        return tuple(rule for rule in RULES if rule in rules)

    def analysis(self, run_id: str, *names: str) -> dict[str, np.ndarray]:
        """Arrays of a run's state-space and memory analyses, by default all.

        Those that are missing are left out; all of them, if the file is absent or corrupt.
        """
        try:
            arrays = read_arrays(analysis_file(self.path, run_id))
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
        if without and self.request.get("analyses", True):
            which = "have no readable analysis; resume the study to compute it"
            sentences.append(f"{len(without)} of {len(self.runs)} runs {which}.")
        return sentences


def read_study(path: str | Path) -> Study:
    """Open a study directory, finished or not."""
    require_path("study", path)
    path = Path(path)
    if not (path / STUDY).is_file():
        raise SettingError("study", str(path), f"a directory with a {STUDY}")
    study = Study(path, read_json(path / STUDY))
    with corruption_named(path / STUDY):
        study.requested, study.memory_size, study.training_lengths, dict(study.request["runs"])
    return study
