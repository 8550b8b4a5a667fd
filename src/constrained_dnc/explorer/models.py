"""The models of the explorer, pretrained ones and runs, with their stored scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained_dnc import zoo
from constrained_dnc.config import PAPER_RULE, Inference, SelectionRule
from constrained_dnc.errors import SettingError
from constrained_dnc.evaluation.results import max_length, stored_results
from constrained_dnc.evaluation.trained import trained_model
from constrained_dnc.files import is_locked
from constrained_dnc.model.build import build_memory
from constrained_dnc.model.config import GROWING
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.dnc_memory import DNCMemory
from constrained_dnc.training.folder import LOCK, STATUS
from constrained_dnc.training.run import TrainedModel, load_run

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


def stored_curves(model: TrainedModel) -> tuple[Curve, ...]:
    """The stored scores of a model's parameters, and of those that the paper's rule selected."""
    if model.run is None:
        return ()
    table, rule = stored_results(model.run.folder), model.rule
    is_shown = (table["selection"] == rule) & (table["iteration"] == model.iteration)
    is_shown |= (table["selection"] == PAPER_RULE) & (rule != PAPER_RULE)
    table = table[is_shown & (table["batches"] > 0) & (table["run_id"] == model.run.config.run_id)]
    groups: Any = table.groupby(["selection", "memory", "inference"], sort=False)
    curves = (Curve(name, memory, mode, rows) for (name, memory, mode), rows in groups)
    return tuple(
        sorted(curves, key=lambda curve: (curve.rule != rule, curve.inference != "network"))
    )


MAX_DRAWN_LENGTH = 250
"""The longest input whose every step is shown."""


def first_length(model: TrainedModel, *, is_compared: bool = False) -> int:
    """The length of the first problem; when comparing models, longer than in training."""
    longest = model.training.max_length
    return min(2 * longest if is_compared else longest, MAX_DRAWN_LENGTH)


def open_model(
    name: str,
    selection: SelectionRule | None = None,
    *,
    inference: Inference = "network",
    trust_code: bool = False,
) -> TrainedModel:
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
    model = replace(run.selected(selection), name=name)
    if inference == "network":
        return model

    def load() -> DNC:
        return trained_model(run, selection=selection, inference=inference).model

    return replace(model, load=load, inference=inference)


def cache_key(name: str) -> Any:
    """A value that changes with the parameters, the status or the scores of a model."""
    if zoo.is_name(name):
        return name
    folder = Path(name)
    files = [folder / STATUS, *folder.glob("selected*"), *folder.glob("evaluation*")]
    stamps = [(path.name, path.stat().st_mtime_ns) for path in files if path.exists()]
    return is_locked(folder / LOCK), *sorted(stamps)
