"""The folder of a run: its files, and its status.

config.json              settings, versions, machine
status.json              how far the run has got, and why it ended
metrics.jsonl            one JSON object per line: losses, scores, entropies
checkpoint-a.safetensors, checkpoint-b.safetensors  all that a resume needs, alternating
selected.safetensors, selected-RULE.safetensors     the parameters that a rule selected
start.safetensors        the parameters of another model that the run started from, if any
nonfinite/iteration-ITERATION.safetensors           the parameters before a skipped update
tensorboard/, wandb/     the metrics again, with --log
code/                    the text of user-defined files that the config names
lock                     held by the process that trains
evaluation.parquet       scores, one row per rule, memory, inference and length
digital-RULE.safetensors  the digital parts of selected parameters, and how they were chosen
analyses.npz             state-space and memory analyses of selected parameters, by a study
completing.lock          held by the process of a study that trains and scores the run
failure.txt              the traceback of the last attempt of a study, if it failed
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from constrained_dnc.config import SelectionRule
from constrained_dnc.files import corruption_named, read_json, refuse_link, write_json

CONFIG, STATUS, METRICS, LOCK = "config.json", "status.json", "metrics.jsonl", "lock"
CHECKPOINTS = ("checkpoint-a.safetensors", "checkpoint-b.safetensors")
SELECTED: dict[SelectionRule, str] = {
    "unseen": "selected.safetensors",
    "seen": "selected-seen.safetensors",
    "score": "selected-score.safetensors",
}
NONFINITE = "nonfinite"
START = "start.safetensors"
FILES = (CONFIG, STATUS, METRICS, START, *CHECKPOINTS, *SELECTED.values())
"""The files that are written under the lock."""
TENSORBOARD, WANDB = "tensorboard", "wandb"
DIGITAL: dict[str, str] = {rule: f"digital-{rule}.safetensors" for rule in SELECTED}
EVALUATION, ANALYSES, FAILURE = "evaluation.parquet", "analyses.npz", "failure.txt"
COMPLETING = "completing.lock"

State = Literal["planned", "training", "finished", "stopped", "diverged", "failed", "interrupted"]
ENDED = ("finished", "diverged")
"""States of a run that has nothing left to train."""


@dataclass(frozen=True)
class Status:
    """How far a run has got, and why it ended; stored in status.json."""

    state: State
    reason: str
    iteration: int
    iterations: int
    skipped_updates: int
    best_iteration: dict[SelectionRule, int | None]
    running_mean: dict[SelectionRule, float | None]  # of the loss or score, at the best iteration
    seconds: float  # spent in training, all processes together
    updated: str
    run_id: str = ""


def read_status(folder: Path) -> Status:
    """The content of status.json."""
    path = folder / STATUS
    values = {"run_id": ""} | read_json(path)
    with corruption_named(path):
        return Status(**{field.name: values[field.name] for field in dataclasses.fields(Status)})


def write_status(folder: Path, **values: Any) -> None:
    """Store the current status."""
    status = Status(**values, updated=datetime.now(UTC).isoformat(timespec="seconds"))
    write_json(folder / STATUS, dataclasses.asdict(status))


def refuse_links(folder: Path) -> None:
    """Refuse links where a run would write through them, as nothing outside it is changed.

    All other files are replaced in one step, and so is a link in their place.
    """
    for name in (METRICS, NONFINITE, TENSORBOARD, WANDB):
        refuse_link(folder / name)
