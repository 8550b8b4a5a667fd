"""Pretrained models that come with the package, named zoo:TASK/APPROACH.

A model is a folder `models/TASK/APPROACH` with the files of a run (config.json, status.json, the
parameters selected by score and, where they generalise to longer inputs, by another rule) and
scores.json: its origin and its scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained_dnc.config import SelectionRule, max_length_of
from constrained_dnc.errors import RunError, SettingError, did_you_mean
from constrained_dnc.files import corruption_named, read_json
from constrained_dnc.model.config import memory_order

PREFIX = "zoo:"
MODELS = Path(__file__).parent / "models"
SCORES = "scores.json"
METADATA = {
    "trial": int, "trials": list, "iterations": int, "iteration": int, "commit": str,
    "state_counts": dict, "scores": dict,
}  # fmt: skip
"""The fields that scores.json must have, and their types."""
RULE: SelectionRule = "score"
"""Every model comes with the parameters selected by this rule."""


@dataclass(frozen=True)
class Pretrained:
    """A model of the zoo."""

    task: str
    approach: str
    folder: Path

    @property
    def name(self) -> str:
        """The name that commands and functions accept in place of a run."""
        return f"{PREFIX}{self.task}/{self.approach}"

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The content of scores.json: the fields of METADATA."""
        path = self.folder / SCORES
        metadata = read_json(path)
        for name, kind in METADATA.items():
            if not isinstance(metadata.get(name), kind):
                raise RunError(f"{path} cannot be read: {name} must be of type {kind.__name__}")
        return metadata

    def memories(self, selection: SelectionRule = RULE) -> tuple[str, ...]:
        """The memories of its scores, by size."""
        with corruption_named(self.folder / SCORES):
            return tuple(sorted(self.metadata["scores"].get(selection, {}), key=memory_order))

    def scores(
        self, memory: str | None = None, selection: SelectionRule = RULE
    ) -> dict[int, float]:
        """Score by length, by default with the memory of training."""
        memory = memory or next(iter(self.memories(selection)), "")
        with corruption_named(self.folder / SCORES):
            scores = self.metadata["scores"].get(selection, {}).get(memory, {})
            return {int(length): float(score) for length, score in scores.items()}

    def max_length(self, memory: str | None = None, selection: SelectionRule = RULE) -> int | None:
        """The longest length with a score of at least 95 %, 0 if none; None if not measured."""
        scores = self.scores(memory, selection)
        return max_length_of(scores) if scores else None


def pretrained() -> dict[str, Pretrained]:
    """All models of the zoo by name."""
    folders = [path.parent for path in sorted(MODELS.glob(f"*/*/{SCORES}"))]
    models = [Pretrained(folder.parent.name, folder.name, folder) for folder in folders]
    return {model.name: model for model in models}


def is_name(run: str | Path) -> bool:
    """Whether this is the name of a pretrained model, not a folder."""
    return str(run).startswith(PREFIX)


def find(name: str | Path) -> Pretrained:
    """The pretrained model with this name."""
    models, name = pretrained(), str(name)
    if not models:
        raise SettingError("this installation has no pretrained models")
    if name not in models:
        raise SettingError("pretrained model", name, ", ".join(models) + did_you_mean(name, models))
    return models[name]
