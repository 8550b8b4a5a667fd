"""Runs of a tiny model, for tests of everything around the model."""

import hashlib
from dataclasses import replace
from pathlib import Path

from constrained_dnc.config import Config, EvaluationConfig, TrainingConfig, make_config
from constrained_dnc.files import read_tensors
from constrained_dnc.model.config import ModelConfig
from constrained_dnc.training.folder import CHECKPOINTS, SELECTED

TINY_MODEL = ModelConfig(memory_size=4, word_size=3, num_reads=1, hidden_size=6)
REVERSE = """
from constrained_dnc import AbstractNumeralTask


class Reverse(AbstractNumeralTask):
    name = "backwards"
    summary = "the numerals backwards"

    def rule(self, numerals):
        return numerals[:, ::-1]
"""
"""A file with a user-defined task."""
STATUS = {
    "state": "finished",
    "reason": "all iterations are done",
    "iteration": 40,
    "iterations": 40,
    "skipped_updates": 0,
    "best_iteration": {"unseen": 30, "seen": None},
    "running_mean": {"unseen": 0.25, "seen": None},
    "seconds": 1.5,
    "updated": "2024-05-06T07:08:09+00:00",
}
"""As a finished run writes it."""


def tiny_config(task: str = "copy", approach: str = "compr", seed: int = 0, **training) -> Config:
    """A config whose training takes a few seconds, nearly all of it compilation."""
    settings = {
        "iterations": 40,
        "batch_size": 4,
        "min_length": 1,
        "max_length": 2,
        "unseen_length": 3,
        "measure_every": 2,
        "window": 4,
        "log_every": 7,
        "entropy_every": 15,
        "checkpoint_every": 10,
    } | training
    return replace(
        make_config(task, approach, seed=seed),
        model=TINY_MODEL,
        training=TrainingConfig(**settings),
        evaluation=EvaluationConfig(
            lengths="1..4", batches=2, extension_lengths="2,5", extension_batches=1, batch_size=4
        ),
    )


def newest_checkpoint(folder: Path):
    """Tensors and metadata of the newest checkpoint."""
    stored = [read_tensors(folder / name) for name in CHECKPOINTS if (folder / name).exists()]
    return max(stored, key=lambda entry: entry[1]["iteration"])


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a run but its lock."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def fingerprint(folder: Path) -> dict:
    """Everything of a run that must not depend on how often it was stopped."""
    tensors, metadata = newest_checkpoint(folder)
    files = ["config.json", "metrics.jsonl", *SELECTED.values()]
    files += sorted(f"nonfinite/{path.name}" for path in folder.glob("nonfinite/*"))
    return {
        "checkpoint": {name: (a.dtype, a.shape, a.tobytes()) for name, a in tensors.items()},
        "metadata": metadata,
        "files": {f: hashlib.sha256((folder / f).read_bytes()).hexdigest() for f in files},
    }
