"""Stored scores of a model over lengths, and the paper's numbers beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from constrained_dnc import published, zoo
from constrained_dnc.choices import PAPER_RULE, SelectionRule, extended
from constrained_dnc.errors import RunError
from constrained_dnc.evaluation.scoring import EVALUATION_FILE
from constrained_dnc.model.config import GROWING
from constrained_dnc.results import read_results_file
from constrained_dnc.training.observer import logger
from constrained_dnc.training.run import Run

AVERAGED = range(published.AVERAGE_FROM, published.AVERAGE_UP_TO + 1)


@dataclass(frozen=True)
class Curve:
    """Score by length of the parameters that a rule selected, with one memory."""

    rule: str
    memory: str
    """Its size in words."""
    scores: dict[int, float]
    iteration: int | None = None
    """Of the parameters, where that is stored."""

    @property
    def name(self) -> str:
        return f"{self.memory}, rule {self.rule}"

    @property
    def max_length(self) -> int:
        return published.max_length_of(self.scores)

    @property
    def average(self) -> float | None:
        """As the paper takes it; None if one of its lengths was not measured."""
        if any(length not in self.scores for length in AVERAGED):
            return None
        return mean(self.scores[length] for length in AVERAGED)


def pretrained_curves(name: str, rule: SelectionRule, run: Run) -> tuple[Curve, ...]:
    """Scores that come with a pretrained model, by its rule and by the paper's."""
    model = zoo.find(name)
    iterations = {**run.status.best_iteration, zoo.RULE: model.metadata["iteration"]}
    return tuple(
        Curve(each, memory_in_words(memory), scores, iterations.get(each))
        for each in dict.fromkeys((rule, PAPER_RULE))
        for memory in model.memories(each)
        if (scores := dict(sorted(model.scores(memory, each).items())))
    )


def stored_curves(run: Run, rule: SelectionRule) -> tuple[Curve, ...]:
    """Scores that `cdnc evaluate` stored, by this rule and by the paper's, of every memory."""
    path = run.folder / EVALUATION_FILE
    if not path.exists():
        return ()
    try:
        table = read_results_file(path)
    except RunError as error:
        logger.warning("its scores are not shown: %s", error)
        return ()
    is_shown = table["selection"].isin((rule, PAPER_RULE)) & (table["batches"] > 0)
    table = table[is_shown & (table["run_id"] == run.config.run_id)]
    by = ["selection", "memory", "inference"]
    return tuple(
        Curve(
            str(each),
            memory_in_words(str(memory)) + (", digital" if inference == "digital" else ""),
            dict(zip(rows["length"].tolist(), rows["score"].tolist(), strict=True)),
            int(rows["iteration"].iloc[0]),
        )
        for (each, memory, inference), rows in table.groupby(by, sort=False)
    )


def describe_curves(curves: Sequence[Curve], iterations: int) -> str:
    """The maximum lengths of each rule and iteration: a run may have been evaluated twice."""
    of_one: dict[tuple[str, int | None], list[Curve]] = {}
    for curve in curves:
        of_one.setdefault((curve.rule, curve.iteration), []).append(curve)
    return " ".join(
        f"{_parameters(rule, iteration, iterations)}: {_lengths(of)}."
        for (rule, iteration), of in of_one.items()
    )


def describe_paper(task: str, approach: str) -> str:
    """The paper's maximum lengths; empty for a task or an approach that it does not have."""
    key = task, approach
    if key not in published.max_lengths(False):
        return ""
    fixed, larger = (published.max_lengths(large)[key] for large in (False, True))
    average = published.average_scores(False)[key].median
    first, last = published.TRAINING_LENGTHS
    return (
        f"The paper's {approach} (rule {PAPER_RULE}, {published.ITERATIONS} iterations on lengths "
        f"{first} to {last}, medians of {published.TRIALS} trials): maximum length {fixed} with "
        f"{memory_in_words(published.SLOTS)} ({_average_in_words(average)}), {larger} with "
        f"{memory_in_words(extended(published.SLOTS))}."
    )


def memory_in_words(size: int | str) -> str:
    """How large a memory is, in words."""
    return f"{GROWING} memory" if size == GROWING else f"{size} slots"


def _parameters(rule: str, iteration: int | None, iterations: int) -> str:
    own = " (the paper's)" if rule == PAPER_RULE else ""
    which = "" if iteration is None else f", iteration {iteration} of {iterations}"
    return f"Rule {rule}{own}{which}"


def _lengths(curves: Iterable[Curve]) -> str:
    parts = []
    for curve in curves:
        average = "" if curve.average is None else f" ({_average_in_words(curve.average)})"
        parts.append(f"{curve.max_length} with {curve.memory}{average}")
    return "maximum length " + ", ".join(parts)


def _average_in_words(average: float) -> str:
    return f"average score {100 * average:.0f} % over lengths {AVERAGED[0]} to {AVERAGED[-1]}"
