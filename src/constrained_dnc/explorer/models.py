"""The models of the explorer: pretrained ones and runs, including those still training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from constrained_dnc import zoo
from constrained_dnc.choices import INFERENCES, Inference, SelectionRule
from constrained_dnc.config import TrainingConfig
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.subject import Subject, subject_of
from constrained_dnc.explorer.scores import Curve, pretrained_curves, stored_curves
from constrained_dnc.files import is_locked
from constrained_dnc.model.build import build_memory
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import DNCMemory
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.disk import LOCK, STATUS
from constrained_dnc.training.run import Status, load_run

MAX_DRAWN_LENGTH = 250
"""The longest input whose every step is shown."""


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model and its metadata."""

    name: str  # a run directory, zoo:TASK/APPROACH, or any name for a model from Python
    task: AbstractTask
    approach: str
    training: TrainingConfig
    rule: str  # that selected the parameters; empty for a model from Python
    rules: Sequence[str]  # whose parameters there are
    iteration: int  # of the parameters
    iterations: int  # of training so far
    state: str  # how far the run is, in words
    is_training: bool
    curves: tuple[Curve, ...]
    """Stored scores, those of the parameters shown first."""
    memory_size: int  # slots of the memory in training
    load: Callable[[], Subject]
    inference: Inference = "network"
    inferences: Sequence[Inference] = ("network",)  # that it can be shown with

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
    A run with user-defined code is opened with `trust_code` only.
    """
    run = load_run(name, trust_code=trust_code)
    memory = build_memory(run.config.approach.memory, run.config.model)
    if not isinstance(memory, DNCMemory):
        raise SettingError(
            f"{name} has a memory of another kind ({type(memory).__name__}); "
            "the explorer shows the DNC's"
        )
    status = run.status
    rule = run.default_rule if selection is None else selection
    _, _, metadata = run.read_selected(rule)
    iteration = metadata["iteration"]
    return Model(
        name=name,
        task=run.task,
        approach=run.config.approach.name,
        training=run.config.training,
        rule=rule,
        rules=run.rules,
        iteration=iteration,
        iterations=status.iteration,
        state=_in_words(status),
        is_training=status.state == "training",
        curves=pretrained_curves(name, rule)
        if run.is_pretrained
        else stored_curves(run, rule, iteration),
        memory_size=run.config.model.memory_size,
        load=lambda: subject_of(run, selection=rule, inference=inference),
        inference=inference,
        inferences=INFERENCES,
    )


def model_from(dnc: DNC, task: AbstractTask | str, training: TrainingConfig | None = None) -> Model:
    """A network from Python with its task; `training` has the lengths it was trained on."""
    subject = subject_of(dnc, task)
    training = training or TrainingConfig()
    return Model(
        name="model",
        task=subject.task,
        approach="a model from Python",
        training=training,
        rule="",
        rules=(),
        iteration=0,
        iterations=0,
        state="no run",
        is_training=False,
        curves=(),
        memory_size=subject.training_slots,
        load=lambda: replace(subject, max_training_length=training.max_length),
    )


def cache_key(name: str) -> Any:
    """A value that changes with the parameters, the status or the scores of a model."""
    if zoo.is_name(name):
        return name
    folder = Path(name)
    files = [folder / STATUS, *folder.glob("selected*"), *folder.glob("evaluation*")]
    stamps = [(path.name, path.stat().st_mtime_ns) for path in files if path.exists()]
    return is_locked(folder / LOCK), *sorted(stamps)


def _in_words(status: Status) -> str:
    if status.state == "training":
        return f"training, iteration {status.iteration} of {status.iterations}"
    return f"{status.state} after {status.iteration} of {status.iterations} iterations"
