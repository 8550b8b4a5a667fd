"""What a study found: the statistics behind every table, figure and verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from constrained_dnc.analysis import statistics
from constrained_dnc.report import published
from constrained_dnc.study import Curves, Study


@dataclass(frozen=True)
class Longest:
    """The maximum length of an approach on a task, with what is needed to judge it."""

    length: int
    interval: tuple[int, int] | None
    training_score: float  # NaN for a study that does not say what it was trained on
    trials: int


@dataclass(frozen=True)
class Evaluation:
    """All trials at one number of slots, by (task, approach)."""

    extended: bool
    curves: Mapping[tuple[str, str], Curves]
    longest: Mapping[tuple[str, str], Longest]
    averages: Mapping[tuple[str, str], Float[np.ndarray, "..."]]
    averaged_lengths: tuple[int, int]  # the first and the last of them


@dataclass(frozen=True)
class Instances:
    """The instances of a task that have a state: one entry per trial."""

    approaches: tuple[str, ...]
    run_ids: tuple[str, ...]
    curvature: Float[np.ndarray, "instances"]
    explained_variance: Float[np.ndarray, "instances"]
    score: Float[np.ndarray, "instances"]


@dataclass(frozen=True)
class Findings:
    """A study, evaluated."""

    study: Study
    tasks: tuple[str, ...]
    approaches: tuple[str, ...]
    plain: Evaluation
    extended: Evaluation
    instances: Mapping[str, Instances]  # of the four approaches that the paper pools
    other_instances: Mapping[str, Instances]

    @property
    def iterations(self) -> int:
        """The training iterations asked for; 0 if the study does not say."""
        return int(self.study.request.get("iterations") or 0)

    def at(self, extended: bool) -> Evaluation:
        return self.extended if extended else self.plain

    def correlations(self) -> list[statistics.Correlation]:
        """Curvature against average score, per task."""
        samples = {task: (found.curvature, found.score) for task, found in self.instances.items()}
        return statistics.correlations(samples)

    def tests(self, extended: bool) -> list[statistics.PairTest]:
        """All pairs of the paper's five approaches, adjusted together."""
        approaches = [name for name in self.approaches if name in published.APPROACHES]
        pairs = statistics.all_pairs(approaches)
        return statistics.pairwise_tests(self.at(extended).averages, self.tasks, pairs)

    def ranked(self, task: str, approach: str) -> list[tuple[str, float]]:
        """Run ids and average scores of the trials, best first."""
        key = (task, approach)
        if key not in self.plain.curves:
            return []
        scores = self.plain.averages[key]
        order = np.argsort(-scores, kind="stable")
        return [(self.plain.curves[key].run_ids[trial], float(scores[trial])) for trial in order]


def find(study: Study) -> Findings:
    """Evaluate a study, as far as it has got."""
    plain = evaluate(study, extended=False)
    known = (*published.APPROACHES, *published.SUPPLEMENT_C, *published.USED_SLOTS)
    approaches = _in_order(study.approaches, known)
    pooled = [name for name in approaches if name in published.STATEFUL]
    others = [name for name in approaches if name not in published.STATEFUL]
    return Findings(
        study,
        _in_order(study.tasks, published.TASKS),
        approaches,
        plain,
        evaluate(study, extended=True),
        _instances(study, plain, pooled),
        _instances(study, plain, others),
    )


def evaluate(study: Study, extended: bool, selection: str | None = None) -> Evaluation:
    """Maximum lengths and average scores with the trained or the extended number of slots."""
    curves = study.curves("extended" if extended else "trained", selection)
    up_to = statistics.AVERAGE_UP_TO_EXTENDED if extended else statistics.AVERAGE_UP_TO
    return Evaluation(
        extended,
        curves,
        {key: _longest(curve, study.training_lengths) for key, curve in curves.items()},
        {
            key: statistics.average_scores(curve.scores, curve.lengths, up_to)
            for key, curve in curves.items()
        },
        _averaged_lengths(curves, up_to),
    )


def best_and_worst(ranked: list[tuple[str, float]]) -> tuple[list[str], list[str]]:
    """The three best trials and, of the others, the three worst."""
    names = [run_id for run_id, _ in ranked]
    return names[:3], names[3:][-3:]


def _longest(curve: Curves, training_lengths: tuple[int, int] | None) -> Longest:
    score = float("nan")
    if training_lengths is not None:
        score = statistics.training_score(curve.scores, curve.lengths, training_lengths)
    return Longest(
        statistics.max_length(curve.scores, curve.lengths),
        statistics.max_length_interval(curve.scores, curve.lengths),
        score,
        curve.trials,
    )


def _averaged_lengths(curves: Mapping[tuple[str, str], Curves], up_to: int) -> tuple[int, int]:
    """The lengths that averages are really over, not those the paper has."""
    found = [int(at) for curve in curves.values() for at in curve.lengths if 2 <= at <= up_to]
    return min(found, default=0), max(found, default=0)


def _instances(study: Study, plain: Evaluation, approaches: Sequence[str]) -> dict[str, Instances]:
    found: dict[str, list[tuple[str, str, float, float, float]]] = {}
    for (task, approach), curve in plain.curves.items():
        if approach not in approaches:
            continue
        for run_id, score in zip(curve.run_ids, plain.averages[task, approach], strict=True):
            arrays = study.analysis(run_id, "curvature", "explained_variance")
            if "curvature" in arrays:
                explained = float(arrays.get("explained_variance", np.nan))
                row = (approach, run_id, float(arrays["curvature"]), explained, score)
                found.setdefault(task, []).append(row)
    tasks = _in_order(study.tasks, published.TASKS)
    return {task: _collect(found[task]) for task in tasks if task in found}


def _collect(rows: list[tuple[str, str, float, float, float]]) -> Instances:
    approaches, run_ids, *values = zip(*rows, strict=True)
    return Instances(approaches, run_ids, *map(np.array, values))


def _in_order(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The paper's order, then a user's own."""
    return (
        *(name for name in known if name in names),
        *(name for name in names if name not in known),
    )
