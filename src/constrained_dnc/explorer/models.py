"""The models of the explorer, pretrained ones and runs, with their stored scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained_dnc import zoo
from constrained_dnc.config import (
    INFERENCES,
    PAPER_RULE,
    Inference,
    SelectionRule,
    TrainingConfig,
)
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.results import max_length, stored_results
from constrained_dnc.evaluation.subject import Subject, subject_of
from constrained_dnc.files import is_locked
from constrained_dnc.model.build import build_memory
from constrained_dnc.model.config import GROWING
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import DNCMemory
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.folder import ENDED, LOCK, STATUS
from constrained_dnc.training.run import Run, load_run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Curve:
    """Score by length of the parameters that a rule selected, with one memory and inference."""

    rule: str
    memory: str  # a number of slots, or growing
    inference: str
    rows: pd.DataFrame  # of results, by length

    @property
    def scores(self) -> dict[int, float]:
        return dict(zip(self.rows["length"], self.rows["score"], strict=True))

    @property
    def name(self) -> str:
        memory = "growing memory" if self.memory == GROWING else f"{self.memory} slots"
        digital = ", digital" if self.inference == "digital" else ""
        return f"{memory}, rule {self.rule}{digital}: maximum {max_length(self.rows)}"


def stored_curves(run: Run, rule: SelectionRule, iteration: int) -> tuple[Curve, ...]:
    """The stored scores of a run, by a rule at an iteration and by the paper's rule."""
    table = stored_results(run.folder)
    is_shown = (table["selection"] == rule) & (table["iteration"] == iteration)
    is_shown |= (table["selection"] == PAPER_RULE) & (rule != PAPER_RULE)
    table = table[is_shown & (table["batches"] > 0) & (table["run_id"] == run.config.run_id)]
    groups: Any = table.groupby(["selection", "memory", "inference"], sort=False)
    curves = (Curve(name, memory, mode, rows) for (name, memory, mode), rows in groups)
    return tuple(sorted(curves, key=lambda it: (it.rule != rule, it.inference != "network")))


MAX_DRAWN_LENGTH = 250
"""The longest input whose every step is shown."""


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model and its metadata."""

    name: str  # a run directory, zoo:TASK/APPROACH, or any name for a model from Python
    task: AbstractTask
    approach: str
    training: TrainingConfig
    memory_size: int  # slots of the memory in training
    load: Callable[[], Subject]
    state: str = "no run"  # how far the run has got
    is_training: bool = False
    has_ended: bool = True
    rule: str = ""  # that selected the parameters
    rules: Sequence[str] = ()  # that have parameters
    iteration: int = 0  # of the parameters
    curves: tuple[Curve, ...] = ()  # stored scores, those of the parameters shown first
    inference: Inference = "network"
    inferences: Sequence[Inference] = ("network",)  # to choose from

    @cached_property
    def subject(self) -> Subject:
        """The network and its memories; read when needed, as a page may list many models."""
        return self.load()

    @property
    def dnc(self) -> DNC:
        """The network itself, or with its digital parts."""
        return self.subject.model

    @property
    def training_lengths(self) -> tuple[int, int]:
        return self.training.min_length, self.training.max_length

    def first_length(self, is_compared: bool = False) -> int:
        """The length of the first problem; when comparing models, longer than in training."""
        longest = self.training.max_length
        return min(2 * longest if is_compared else longest, MAX_DRAWN_LENGTH)


def open_model(
    name: str,
    selection: SelectionRule | None = None,
    *,
    inference: Inference = "network",
    trust_code: bool = False,
) -> Model:
    """A pretrained model, zoo:TASK/APPROACH, or the one that a run directory holds now.

    Its parameters are those that the rule `selection` selected, by default the run's default rule.
    A run with user-defined code is opened only with `trust_code`.
    """
    run = load_run(name, trust_code=trust_code)
    memory = build_memory(run.config.approach.memory, run.config.model)
    if not isinstance(memory, DNCMemory):
        raise SettingError(
            f"{name} has a memory of another kind ({type(memory).__name__}); "
            "the explorer shows the DNC's"
        )
    status, rule = run.status, selection or run.default_rule
    iteration = run.read_selected(rule)[2]["iteration"]
    is_training, progress = status.state == "training", f"{status.iteration} of {status.iterations}"
    return Model(
        name=name,
        task=run.task,
        approach=run.config.approach.name,
        training=run.config.training,
        memory_size=run.config.model.memory_size,
        load=lambda: subject_of(run, selection=rule, inference=inference),
        state=f"training, iteration {progress}"
        if is_training
        else f"{status.state} after {progress} iterations",
        is_training=is_training,
        has_ended=status.state in ENDED,
        rule=rule,
        rules=run.rules,
        iteration=iteration,
        curves=stored_curves(run, rule, iteration),
        inference=inference,
        inferences=INFERENCES,
    )


def model_from(
    dnc: DNC, task: AbstractTask | str | None, training: TrainingConfig | None = None
) -> Model:
    """A network from Python with its task; `training` has the lengths it was trained on."""
    training = training or TrainingConfig()
    subject = replace(subject_of(dnc, task), max_training_length=training.max_length)
    slots = subject.training_slots
    return Model("model", subject.task, "a model from Python", training, slots, lambda: subject)


def cache_key(name: str) -> Any:
    """A value that changes with the parameters, the status or the scores of a model."""
    if zoo.is_name(name):
        return name
    folder = Path(name)
    files = [folder / STATUS, *folder.glob("selected*"), *folder.glob("evaluation*")]
    stamps = [(path.name, path.stat().st_mtime_ns) for path in files if path.exists()]
    return is_locked(folder / LOCK), *sorted(stamps)
