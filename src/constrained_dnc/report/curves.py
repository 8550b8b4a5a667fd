"""Score against length of the trials of an approach, from the table of results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.choices import MEMORIES, Memory
from constrained_dnc.study import Study

FEW_TRIALS = 4
"""With at most so many trials, bands show minimum to maximum."""


@dataclass(frozen=True)
class Curves:
    """Score against length of all trials of one approach on one task.

    A length that a trial was not evaluated at is NaN.
    """

    task: str
    approach: str
    score_kind: str
    run_ids: tuple[str, ...]
    lengths: Int[np.ndarray, "lengths"]
    scores: Float[np.ndarray, "trials lengths"]

    @property
    def trials(self) -> int:
        return len(self.run_ids)

    @property
    def band(self) -> Float[np.ndarray, "3 lengths"]:
        """Lower end, median and upper end: the middle half of the trials, all of a few."""
        ends = (0, 1) if self.trials <= FEW_TRIALS else (0.25, 0.75)
        return np.quantile(self.scores, [ends[0], 0.5, ends[1]], axis=0)


def extended_size(study: Study) -> int | None:
    """Slots of the larger memory that runs are evaluated with."""
    sizes = [int(memory) for memory in study.memories[1:] if memory.isdecimal()]
    return sizes[0] if sizes else None


def curves_of(
    study: Study,
    memory: Memory = "trained",
    selection: str | None = None,
    iterations: int | None = None,
) -> dict[tuple[str, str], Curves]:
    """Score against length by (task, approach), with one kind of memory."""
    names = {
        "trained": study.memories[0],
        "extended": str(extended_size(study)),
        "growing": "growing",
    }
    assert set(names) == set(MEMORIES)
    if not study.selections:
        return {}
    rows = study.results if iterations is None else study.history
    rows = rows[rows["memory"] == names[memory]]
    rows = rows[rows["selection"] == (selection or study.selections[0])]
    if iterations is not None:
        rows = rows[rows["iterations"] == iterations]
    rows = rows[rows["batches"] > 0]
    curves = {}
    for (task, approach), group in rows.groupby(["task", "approach"], sort=False):
        group = group.assign(score=group["score"].where(np.isfinite(group["score"]), 0.0))
        table = group.pivot(index=["seed", "run_id"], columns="length", values="score")
        curves[str(task), str(approach)] = Curves(
            str(task),
            str(approach),
            str(group["score_kind"].iloc[0]),
            tuple(run_id for _, run_id in table.index),
            table.columns.to_numpy(),
            table.to_numpy(),
        )
    return curves
