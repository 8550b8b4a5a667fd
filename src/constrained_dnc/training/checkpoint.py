"""Checkpoints: everything that a bit-exact resume needs, in two files that take turns.

Every span of `checkpoint_every` iterations has its file, so that runs end with the same two files
however often they were stopped and whether they became longer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from constrained_dnc.choices import SelectionRule
from constrained_dnc.config import Config, as_dict, differing, without_iterations
from constrained_dnc.errors import RunError
from constrained_dnc.files import read_tensors, write_tensors
from constrained_dnc.model.leaves import fill_leaves, name_leaves
from constrained_dnc.training.disk import CHECKPOINTS
from constrained_dnc.training.selection import Selection, SpikeFilteredSelection, stored_selections


@dataclass
class Progress:
    """Where a training stands."""

    parameters: Any
    optimiser: Any
    selections: dict[SelectionRule, Selection | SpikeFilteredSelection]
    selected: dict[SelectionRule, Any] = field(default_factory=dict)  # parameters
    iteration: int = 0  # updates so far, skipped ones included
    skipped_updates: int = 0
    skipped_in_a_row: int = 0
    metrics_bytes: int = 0  # of metrics.jsonl
    metrics_checksum: str | None = None  # of those bytes; None in files that do not have it
    sums: dict[str, list[float]] = field(default_factory=dict)  # and counts, since the last line


class Checkpoints:
    """The two checkpoint files of a run with its config, backend and number of threads."""

    def __init__(self, folder: Path, config: Config, backend: str, threads: int):
        self._folder = folder
        self._config = config
        self._computed_by = {"backend": backend, "threads": threads}

    def save(self, progress: Progress) -> None:
        """Write the progress over the file of its span of iterations."""
        tensors = name_leaves(progress.parameters, "parameters")
        tensors |= name_leaves(progress.optimiser, "optimiser")
        for rule, parameters in progress.selected.items():
            tensors |= name_leaves(parameters, f"selected-{rule}")
        about = {
            "config": without_iterations(json.loads(self._config.to_json())),
            **self._computed_by,
            "iteration": progress.iteration,
            "skipped_updates": progress.skipped_updates,
            "skipped_in_a_row": progress.skipped_in_a_row,
            "metrics_bytes": progress.metrics_bytes,
            "metrics_checksum": progress.metrics_checksum,
            "sums": progress.sums,
            "selections": {rule: s.to_values() for rule, s in progress.selections.items()},
        }
        span = math.ceil(progress.iteration / self._config.training.checkpoint_every)
        write_tensors(self._folder / CHECKPOINTS[(span - 1) % 2], tensors, about)

    def load(self, fresh: Progress, warn: Callable[[str], None]) -> Progress | None:
        """The newest progress in the kind of `fresh`; None when there is none at all.

        A damaged file gives a warning as long as the other one is whole.
        """
        found = _newest(self._folder, warn)
        if found is None:
            return None
        path, tensors, about = found
        if fields := different_fields(self._config, self._computed_by, about):
            raise RunError(f"{path} belongs to another config; different: {', '.join(fields)}")
        try:
            return _restore(fresh, tensors, about, self._config.training.window)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{path} is not a checkpoint: {error!r}") from error


def newest_values(folder: Path) -> dict[str, Any] | None:
    """What the newest whole checkpoint says beside its tensors; None when there is none at all."""
    found = _newest(folder, lambda problem: None)
    return None if found is None else found[2]


def different_fields(
    config: Config, computed_by: Mapping[str, Any], about: Mapping[str, Any]
) -> list[str]:
    """What differs between a run and a checkpoint, whatever their numbers of iterations."""
    ours = as_dict(config)
    try:
        # a checkpoint may know nothing of the backend and the threads
        return differing(
            {**without_iterations(ours), **computed_by},
            {**without_iterations(about["config"]), **computed_by, **_known(about, computed_by)},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"the config in a checkpoint cannot be read: {error!r}") from error


def _known(about: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: about[name] for name in names if name in about}


Found: TypeAlias = tuple[Path, dict[str, Any], dict[str, Any]]


def _newest(folder: Path, warn: Callable[[str], None]) -> Found | None:
    """Path, tensors and values of the newest whole checkpoint."""
    found: list[Found] = []
    problems = []
    for path in (folder / name for name in CHECKPOINTS):
        if path.exists():
            try:
                found.append((path, *_read(path)))
            except RunError as error:
                problems.append(str(error))
    if not found and problems:
        raise RunError("no checkpoint is whole, so nothing was changed: " + "; ".join(problems))
    for problem in problems:
        warn(f"{problem}; resuming from the other checkpoint")
    return max(found, key=lambda entry: entry[2]["iteration"], default=None)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    tensors, about = read_tensors(path)
    needed = {"config", "selections", "skipped_updates"}
    if not needed <= about.keys() or type(about.get("iteration")) is not int:
        raise RunError(f"{path} is not a checkpoint")
    return tensors, about


def _restore(fresh: Progress, tensors: Any, about: dict[str, Any], window: int) -> Progress:
    selections = stored_selections(about["selections"], window)
    return Progress(
        parameters=fill_leaves(fresh.parameters, tensors, "parameters"),
        optimiser=fill_leaves(fresh.optimiser, tensors, "optimiser"),
        selections=selections,
        selected={
            rule: fill_leaves(fresh.parameters, tensors, f"selected-{rule}")
            for rule, selection in selections.items()
            if selection.best_iteration is not None
        },
        iteration=about["iteration"],
        skipped_updates=about["skipped_updates"],
        skipped_in_a_row=about["skipped_in_a_row"],
        metrics_bytes=about["metrics_bytes"],
        metrics_checksum=about.get("metrics_checksum"),
        sums=about["sums"],
    )
