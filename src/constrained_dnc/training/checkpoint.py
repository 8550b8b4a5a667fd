"""Checkpoints: everything that a bit-exact resume needs, in two files that take turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constrained_dnc.config import Config, differences, lengthened
from constrained_dnc.errors import RunProblem
from constrained_dnc.training.files import fill_leaves, name_leaves, read_tensors, write_tensors
from constrained_dnc.training.selection import CalmSelection, Selection, stored_selections

NAMES = ("checkpoint-a.safetensors", "checkpoint-b.safetensors")


@dataclass
class Progress:
    """Where a training stands."""

    parameters: Any
    optimiser: Any
    selections: dict[str, Selection | CalmSelection]  # by rule
    selected: dict[str, Any] = field(default_factory=dict)  # parameters by rule
    iteration: int = 0  # updates so far, skipped ones included
    skipped_updates: int = 0
    skipped_in_a_row: int = 0
    metrics_bytes: int = 0  # of metrics.jsonl
    sums: dict[str, list[float]] = field(default_factory=dict)  # and counts, since the last line


class Checkpoints:
    """The two checkpoint files of a run; the newer one is never the one that is overwritten."""

    def __init__(self, folder: Path, config: Config):
        self._folder = folder
        self._config = config
        self._next = NAMES[0]

    def save(self, progress: Progress) -> None:
        """Write the progress over the older file."""
        tensors = name_leaves(progress.parameters, "parameters")
        tensors |= name_leaves(progress.optimiser, "optimiser")
        for rule, parameters in progress.selected.items():
            tensors |= name_leaves(parameters, f"selected-{rule}")
        about = {
            "config": json.loads(self._config.to_json()),
            "iteration": progress.iteration,
            "skipped_updates": progress.skipped_updates,
            "skipped_in_a_row": progress.skipped_in_a_row,
            "metrics_bytes": progress.metrics_bytes,
            "sums": progress.sums,
            "selections": {rule: s.to_values() for rule, s in progress.selections.items()},
        }
        write_tensors(self._folder / self._next, tensors, about)
        self._next = _other(self._next)

    def load(self, fresh: Progress, warn: Callable[[str], None]) -> Progress | None:
        """The newest progress in the kind of `fresh`; None when there is none at all.

        A damaged file costs a warning as long as the other one is whole.
        """
        found, problems = [], []
        for name in NAMES:
            path = self._folder / name
            if path.exists():
                try:
                    found.append((name, *_read(path)))
                except RunProblem as error:
                    problems.append(str(error))
        if not found and problems:
            raise RunProblem(
                "no checkpoint is whole, so nothing was changed: " + "; ".join(problems)
            )
        for problem in problems:
            warn(f"{problem}; going on from the other checkpoint")
        if not found:
            return None
        name, tensors, about = max(found, key=lambda entry: int(entry[2]["iteration"]))
        self._refuse_other_config(name, about)
        self._next = _other(name)
        return _restore(fresh, tensors, about, self._config.training.window)

    def _refuse_other_config(self, name: str, about: dict[str, Any]) -> None:
        theirs = Config.from_dict(about["config"])
        fields = differences(self._config, lengthened(theirs, self._config.training.iterations))
        if fields:
            raise RunProblem(
                f"{self._folder / name} belongs to another config; different: {', '.join(fields)}"
            )


def _other(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]


def _read(path: Path) -> tuple[Any, dict[str, Any]]:
    tensors, about = read_tensors(path)
    if "config" not in about or "selections" not in about:
        raise RunProblem(f"{path} is not a checkpoint")
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
        sums=about["sums"],
    )
