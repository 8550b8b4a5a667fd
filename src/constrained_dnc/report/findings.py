"""What a study found: the statistics behind every table, figure and verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.approaches import USED_SLOTS
from constrained_dnc.choices import MEMORIES, PAPER_RULE, Memory
from constrained_dnc.report.curves import Curves, curves_of
from constrained_dnc.report.wording import listed, span, thousands
from constrained_dnc.study import Study

POOLED = f"those of {listed(published.STATEFUL)} that the study has"
"""The approaches whose instances the paper pools, in words."""

Key = tuple[str, str]  # task, approach


@dataclass(frozen=True)
class Longest:
    """The maximum length of an approach on a task, with what is needed to judge it."""

    length: int
    interval: tuple[int, int] | None
    training_score: float  # NaN for a study that does not say what it was trained on
    trials: int


@dataclass(frozen=True)
class Evaluation:
    """All trials with one kind of memory, by (task, approach)."""

    memory: Memory
    curves: Mapping[Key, Curves]
    longest: Mapping[Key, Longest]
    averages: Mapping[Key, Float[np.ndarray, "..."]]
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
    """A study, evaluated with the parameters of one selection rule."""

    study: Study
    selection: str
    tasks: tuple[str, ...]
    approaches: tuple[str, ...]
    memories: Mapping[str, Evaluation]
    instances: Mapping[str, Instances]  # of the four approaches that the paper pools
    other_instances: Mapping[str, Instances]

    @property
    def plain(self) -> Evaluation:
        return self.memories["trained"]

    @property
    def extended(self) -> Evaluation:
        return self.memories["extended"]

    @property
    def asked_trials(self) -> tuple[int, int]:
        """The fewest and the most trials asked for, over tasks and approaches."""
        return _ends(trials for trials, _ in self.study.requested.values())

    @property
    def found_trials(self) -> tuple[int, int]:
        """The fewest and the most of the trials asked for that have results."""
        return _ends(self._counts.values())

    @property
    def begun_trials(self) -> tuple[int, int]:
        """The same, of the tasks and approaches that have any."""
        return _ends(count for count in self._counts.values() if count)

    @property
    def not_begun(self) -> list[Key]:
        """The tasks and approaches asked for that have no results."""
        return [key for key, count in self._counts.items() if not count]

    @property
    def _counts(self) -> dict[Key, int]:
        found = Counter((run.task, run.approach) for run in self.study.runs.reset_index().itertuples())
        return {key: found[key] for key in self.study.requested}

    @property
    def asked_iterations(self) -> tuple[int, int]:
        """The same for the iterations of training; 0 if the study does not say."""
        return _ends(iterations for _, iterations in self.study.requested.values())

    @property
    def found_iterations(self) -> tuple[int, int]:
        """The same for what runs were trained for, unless they diverged; else what was asked."""
        runs = [run for run in self.study.runs.reset_index().itertuples() if run.status != "diverged"]
        return _ends(run.iterations for run in runs) if runs else self.asked_iterations

    def at(self, extended: bool) -> Evaluation:
        return self.extended if extended else self.plain

    def trained(self, keys: Iterable[Key]) -> str:
        """How long the runs of these (task, approach) were trained, in words."""
        found = {
            self.study.runs.loc[run_id].iterations
            for key in keys
            for memory in self.memories.values()
            if key in memory.curves
            for run_id in memory.curves[key].run_ids
        }
        return f"{span(_ends(found), thousands)} iterations"

    def correlations(self) -> list[statistics.Correlation]:
        """Curvature against average score, per task."""
        samples = {task: (found.curvature, found.score) for task, found in self.instances.items()}
        return statistics.correlations(samples)

    def pair_tests(self, extended: bool) -> list[statistics.PairTest]:
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


def _ends(numbers: Iterable[int]) -> tuple[int, int]:
    found = list(numbers)
    return min(found, default=0), max(found, default=0)


def main_selection(study: Study) -> str:
    """The paper's rule, or the only one there is."""
    return study.selections[0] if study.selections else PAPER_RULE


def find(study: Study, selection: str | None = None) -> Findings:
    """Evaluate a study, as far as it has got; by default by the paper's selection rule."""
    rule = main_selection(study) if selection is None else selection
    memories: dict[str, Evaluation] = {memory: evaluate(study, memory, rule) for memory in MEMORIES}
    known = (*published.APPROACHES, *published.SUPPLEMENT_C, *USED_SLOTS)
    approaches = _in_order(study.approaches, known)
    # Only the parameters of the paper's rule are analysed.
    analysed = approaches if rule == main_selection(study) else ()
    pooled = [name for name in analysed if name in published.STATEFUL]
    others = [name for name in analysed if name not in published.STATEFUL]
    return Findings(
        study,
        rule,
        _in_order(study.tasks, published.TASKS),
        approaches,
        memories,
        _instances(study, memories["trained"], pooled),
        _instances(study, memories["trained"], others),
    )


def evaluate(
    study: Study, memory: Memory, selection: str, iterations: int | None = None
) -> Evaluation:
    """Maximum lengths and average scores with one kind of memory."""
    curves = curves_of(study, memory, selection, iterations)
    up_to = published.AVERAGE_UP_TO
    if memory != "trained":
        up_to = published.AVERAGE_UP_TO_EXTENDED
    return Evaluation(
        memory,
        curves,
        {
            key: _longest(curve, study.training_lengths)
            for key, curve in counted(curves, memory).items()
        },
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


def counted(curves: Mapping[Key, Curves], memory: Memory) -> Mapping[Key, Curves]:
    """With a growing memory a trial that was given up, mostly wrong, fails at longer inputs."""
    if memory != "growing":
        return curves
    return {key: replace(curve, scores=_filled(curve.scores)) for key, curve in curves.items()}


def _filled(scores: Float[np.ndarray, "trials lengths"]) -> Float[np.ndarray, "trials lengths"]:
    """Zero where a trial was not measured any longer."""
    absent = np.isnan(scores)
    given_up = np.logical_and.accumulate(absent[:, ::-1], axis=1)[:, ::-1]
    return np.where(given_up, 0.0, scores)


def _averaged_lengths(curves: Mapping[Key, Curves], up_to: int) -> tuple[int, int]:
    """The lengths that averages are really over, not those the paper has."""
    averaged = range(published.AVERAGE_FROM, up_to + 1)
    found = [int(at) for curve in curves.values() for at in curve.lengths if at in averaged]
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
