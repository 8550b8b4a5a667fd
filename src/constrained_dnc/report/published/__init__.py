"""The paper's numbers, as data."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from constrained_dnc.config import PAPER

TASKS, APPROACHES, TRIALS = PAPER.tasks, PAPER.approaches, PAPER.trials
ITERATIONS = PAPER.training.iterations
TRAINING_LENGTHS = PAPER.training.min_length, PAPER.training.max_length
STATEFUL = ("stateful-baseline", "compr", "reg", "compr+reg")  # pooled over in Kendall's tau
ENCODING_ONLY = ("search", "logic")  # tasks whose decoding phase the paper leaves out of t-SNE
AVERAGE_FROM, AVERAGE_UP_TO, AVERAGE_UP_TO_EXTENDED = 2, 45, 450
TITLE = (
    "State-Space Constraints Can Improve the Generalisation of the Differentiable Neural Computer "
    "to Input Sequences With Unseen Length"
)


@cache
def max_lengths(extended: bool) -> dict[tuple[str, str], int]:
    """Maximum length by (task, approach)."""
    lines = rows("max_length", extended)
    return {(row["task"], row["approach"]): int(row["max_length"]) for row in lines}


@cache
def average_scores(extended: bool) -> dict[tuple[str, str], dict[str, float]]:
    """Median, max, mean and sd of the trials' average scores, from 0 to 1, by (task, approach)."""
    statistics = ("median", "max", "mean", "sd")
    return {
        (row["task"], row["approach"]): {name: float(row[name]) / 100 for name in statistics}
        for row in rows("average_score", extended)
    }


@cache
def bold_medians(extended: bool) -> dict[str, str]:
    """By task, the approach whose median is bold in the paper's table.

    The paper compared before rounding: equal printed medians do not tell which one is bold.
    """
    lines = rows("average_score", extended)
    return {row["task"]: row["approach"] for row in lines if row["bold"] == "yes"}


@cache
def pairwise_p(extended: bool) -> dict[tuple[str, str, str], float]:
    """Adjusted p by (task, approach, approach)."""
    return {
        (row["task"], row["approach_a"], row["approach_b"]): float(row["p_adjusted"])
        for row in rows("pairwise_p", extended)
    }


@cache
def curvature_correlations() -> dict[str, tuple[float, float]]:
    """Kendall's tau and adjusted p by task."""
    lines = rows("curvature_correlation")
    return {row["task"]: (float(row["kendall_tau"]), float(row["p_adjusted"])) for row in lines}


@cache
def explained_variances() -> dict[str, float]:
    """By task, the share of the variance in 20 principal components, a mean over instances."""
    lines = rows("explained_variance")
    return {row["task"]: float(row["percent"]) / 100 for row in lines}


def rows(table: str, extended: bool = False) -> list[dict[str, str]]:
    """The rows of a table of the paper, with or without extended memory, as printed."""
    name = f"{table}_extended_memory.csv" if extended else f"{table}.csv"
    text = resources.files(__package__).joinpath("values", name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
