"""Stored scores of a model over lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from constrained_dnc import zoo
from constrained_dnc.choices import PAPER_RULE, SelectionRule
from constrained_dnc.lengths import max_length_of
from constrained_dnc.model.config import GROWING
from constrained_dnc.results import read_results_file
from constrained_dnc.training.folder import EVALUATION
from constrained_dnc.training.run import Run


@dataclass(frozen=True)
class Curve:
    """Score by length of the parameters that a rule selected, with one memory and inference."""

    rule: str
    memory: str  # a number of slots, or growing
    inference: str
    scores: dict[int, float]

    @property
    def name(self) -> str:
        memory = "growing memory" if self.memory == GROWING else f"{self.memory} slots"
        digital = ", digital" if self.inference == "digital" else ""
        longest = max_length_of(self.scores)
        return f"{memory}, rule {self.rule}{digital}: maximum {longest}"


def pretrained_curves(name: str, rule: SelectionRule) -> tuple[Curve, ...]:
    """Scores that come with a pretrained model, by a rule and by the paper's."""
    model = zoo.find(name)
    return tuple(
        Curve(each, memory, "network", dict(sorted(scores.items())))
        for each in dict.fromkeys((rule, PAPER_RULE))
        for memory in model.memories(each)
        if (scores := model.scores(memory, each))
    )


def stored_curves(run: Run, rule: SelectionRule, iteration: int) -> tuple[Curve, ...]:
    """Scores that `cdnc evaluate` stored, by a rule at an iteration and by the paper's rule."""
    path = run.folder / EVALUATION
    if not path.exists():
        return ()
    table = read_results_file(path)
    is_shown = (table["selection"] == rule) & (table["iteration"] == iteration)
    is_shown |= (table["selection"] == PAPER_RULE) & (rule != PAPER_RULE)
    table = table[is_shown & (table["batches"] > 0) & (table["run_id"] == run.config.run_id)]
    groups: Any = table.groupby(["selection", "memory", "inference"], sort=False)
    return tuple(
        Curve(rule, memory, inference, dict(zip(rows["length"], rows["score"], strict=True)))
        for (rule, memory, inference), rows in groups
    )
