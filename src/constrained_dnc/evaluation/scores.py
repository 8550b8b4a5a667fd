"""Scores of a model at one length: the mean over samples of several batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from constrained_dnc.tasks.task import Scores


@dataclass(frozen=True)
class MeanScores:
    """What a row of a table says about a length."""

    score: float
    sequence_accuracy: float
    recall: float | None  # search only


def mean_scores(batches: Sequence[Scores]) -> MeanScores:
    """The means over all samples."""
    recalls = [scores.recall for scores in batches if scores.recall is not None]
    return MeanScores(
        score=float(np.concatenate([scores.score for scores in batches]).mean()),
        sequence_accuracy=float(
            np.concatenate([scores.sequence_accuracy for scores in batches]).mean()
        ),
        recall=float(np.concatenate(recalls).mean()) if recalls else None,
    )
