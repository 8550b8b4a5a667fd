"""The models that can be looked at: pretrained ones, and runs, also those still training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow import ArrowException

from constrained_dnc import zoo
from constrained_dnc.config import Config
from constrained_dnc.errors import RunProblem
from constrained_dnc.files import read_tensors
from constrained_dnc.model.config import GROWING
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.run import SELECTED, STATUS, Run, Status, load_run

MEMORIES = ("trained", "extended", "growing")
Scores = dict[str, dict[int, float]]
"""Score by length, by memory."""


@dataclass(frozen=True)
class Model:
    """A trained model, and what is known about it."""

    name: str  # as it was asked for
    task: AbstractTask
    run: Run
    iteration: int  # of the parameters
    state: str  # how far the run is, in words
    is_training: bool
    scores: Scores

    @cached_property
    def dnc(self) -> DNC:
        """The network itself; built when it is needed, as a page may list many models."""
        return self.run.model

    @property
    def config(self) -> Config:
        return self.run.config

    @property
    def memory_size(self) -> int:
        """Slots of the memory in training."""
        return self.config.model.memory_size

    @property
    def training_lengths(self) -> tuple[int, int]:
        return self.config.training.min_length, self.config.training.max_length


def open_model(name: str, *, trust_code: bool = False) -> Model:
    """A model of the zoo, as zoo:TASK/APPROACH, or the one that a run directory holds now.

    A run whose task or controller is a file of its own is opened with `trust_code` only.
    """
    run = load_run(name, trust_code=trust_code)
    status = run.status
    parameters = run.folder / SELECTED[run.default_rule]
    if not parameters.exists():
        raise RunProblem(f"{run.folder} has no selected parameters yet")
    return Model(
        name=name,
        task=run.task,
        run=run,
        iteration=read_tensors(parameters)[1]["iteration"],
        state=_in_words(status),
        is_training=status.state == "training",
        scores=_pretrained_scores(name) if run.is_pretrained else _stored_scores(run.folder),
    )


def version_of(name: str) -> Any:
    """Something that changes when the parameters, the state or the scores of a model do."""
    if zoo.is_name(name):
        return name
    folder = Path(name)
    files = [folder / SELECTED["unseen"], folder / STATUS, *_score_files(folder)]
    return tuple((path.name, path.stat().st_mtime_ns) for path in files if path.exists())


def _in_words(status: Status) -> str:
    if status.state == "training":
        return f"training, iteration {status.iteration} of {status.iterations}"
    return f"{status.state} after {status.iteration} of {status.iterations} iterations"


def _score_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("evaluation-unseen-*.parquet"))


def _pretrained_scores(name: str) -> Scores:
    """What the zoo tells about its model."""
    found = {memory: zoo.find(name).scores(memory) for memory in MEMORIES}
    return {
        f"{memory} memory": dict(sorted(line.items())) for memory, line in found.items() if line
    }


def _stored_scores(folder: Path) -> Scores:
    """What `cdnc evaluate` stored; the same lengths may have several memories."""
    found: Scores = {}
    for path in _score_files(folder):
        try:
            rows = pq.read_table(path).to_pylist()
        except (OSError, ArrowException) as error:
            raise RunProblem(f"{path} cannot be read: {error}") from error
        for row in rows:
            is_growing = row.get("memory") == GROWING
            memory = "growing memory" if is_growing else f"{row['memory_size']} slots"
            found.setdefault(memory, {})[row["length"]] = row["score"]
    return {memory: dict(sorted(line.items())) for memory, line in found.items()}
