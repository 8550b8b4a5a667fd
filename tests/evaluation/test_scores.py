"""Means over samples."""

import numpy as np
import pytest

from constrained_dnc.evaluation.scores import mean_scores
from constrained_dnc.tasks.task import Scores


def test_every_sample_counts_once():
    first = Scores(np.array([1.0, 0.5]), np.array([1.0, 0.0]))
    second = Scores(np.array([0.0]), np.array([0.0]))
    means = mean_scores([first, second])
    assert means.score == pytest.approx(0.5)
    assert means.sequence_accuracy == pytest.approx(1 / 3)
    assert means.recall is None


def test_recall_where_there_is_one():
    scores = Scores(np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.array([1.0, 0.5]))
    assert mean_scores([scores]).recall == pytest.approx(0.75)
