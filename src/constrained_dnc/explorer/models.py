"""The models that can be looked at: pretrained ones, and runs, also those still training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from constrained_dnc import zoo
from constrained_dnc.choices import PAPER_RULE
from constrained_dnc.config import Config
from constrained_dnc.evaluation.scoring import EVALUATION_FILE
from constrained_dnc.explorer.scores import Curve, pretrained_curves, stored_curves
from constrained_dnc.files import is_locked
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.disk import LOCK, SELECTED, STATUS
from constrained_dnc.training.run import Run, Selected, Status, load_run

LONGEST_DRAWN = 250
"""The longest input whose every step is shown."""


@dataclass(frozen=True)
class Model:
    """A trained model, and what is known about it."""

    name: str  # as it was asked for
    task: AbstractTask
    run: Run
    iteration: int  # of the parameters
    iterations: int  # of training so far
    state: str  # how far the run is, in words
    is_training: bool
    curves: tuple[Curve, ...]
    """Stored scores, those of the parameters shown first."""

    @cached_property
    def selected(self) -> Selected:
        """The parameters; read when they are needed, as a page may list many models."""
        return self.run.selected()

    @property
    def dnc(self) -> DNC:
        """The network itself."""
        return self.selected.model

    @property
    def config(self) -> Config:
        return self.run.config

    @property
    def scores(self) -> dict[str, dict[int, float]]:
        """Stored score by length, by the name of the curve."""
        return {curve.name: curve.scores for curve in self.curves}

    @property
    def memory_size(self) -> int:
        """Slots of the memory in training."""
        return self.config.model.memory_size

    @property
    def training_lengths(self) -> tuple[int, int]:
        return self.config.training.min_length, self.config.training.max_length

    @property
    def first_length(self) -> int:
        """Of the problem shown when none is asked for."""
        return min(self.config.training.max_length, LONGEST_DRAWN)


def open_model(name: str, *, trust_code: bool = False) -> Model:
    """A model of the zoo, as zoo:TASK/APPROACH, or the one that a run directory holds now.

    A run whose task or controller is a file of its own is opened with `trust_code` only.
    """
    run = load_run(name, trust_code=trust_code)
    status = run.status
    _, _, about = run.read_selected()
    return Model(
        name=name,
        task=run.task,
        run=run,
        iteration=about["iteration"],
        iterations=status.iteration,
        state=_in_words(status),
        is_training=status.state == "training",
        curves=(
            pretrained_curves(
                name, run.default_rule, run.config.model.memory_size, status.best_iteration
            )
            if run.is_pretrained
            else stored_curves(run)
        ),
    )


def version_of(name: str) -> Any:
    """Something that changes when the parameters, the state or the scores of a model do."""
    if zoo.is_name(name):
        return name
    folder = Path(name)
    files = [folder / name for name in (SELECTED[PAPER_RULE], STATUS, EVALUATION_FILE)]
    stamps = [(path.name, path.stat().st_mtime_ns) for path in files if path.exists()]
    return is_locked(folder / LOCK), *stamps


def _in_words(status: Status) -> str:
    if status.state == "training":
        return f"training, iteration {status.iteration} of {status.iterations}"
    return f"{status.state} after {status.iteration} of {status.iterations} iterations"
