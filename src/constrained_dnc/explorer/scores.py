"""What is stored about a model: scores over lengths, and the paper's numbers beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from constrained_dnc import published, zoo
from constrained_dnc.choices import PAPER_RULE, SelectionRule, extended
from constrained_dnc.errors import RunError
from constrained_dnc.evaluation.memories import memory_sizes, size_in
from constrained_dnc.files import Fields, is_count, require_fields
from constrained_dnc.model.config import GROWING, MemorySize
from constrained_dnc.storage import read_table
from constrained_dnc.study.layout import SCHEMA
from constrained_dnc.training.disk import evaluation_files
from constrained_dnc.training.observer import logger
from constrained_dnc.training.run import Run, require_own

AVERAGED = range(published.AVERAGE_FROM, published.AVERAGE_UP_TO + 1)


@dataclass(frozen=True)
class Curve:
    """Score by length of the parameters that a selection rule found, with one memory."""

    rule: str
    memory: str
    """How large, in words."""
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


def pretrained_curves(
    name: str, rule: SelectionRule, trained: int, selected: Mapping[SelectionRule, int | None]
) -> tuple[Curve, ...]:
    """What the zoo tells about its model, and about the paper's rule in the same run.

    `selected` are the iterations that the rules chose.
    """
    model = zoo.find(name)
    chosen = {**selected, rule: model.about["iteration"]}
    return tuple(
        Curve(each, in_slots(size), scores, chosen.get(each))
        for each in dict.fromkeys((rule, PAPER_RULE))
        for memory, size in memory_sizes(trained).items()
        if (scores := dict(sorted(model.scores(memory, each).items())))
    )


def stored_curves(run: Run) -> tuple[Curve, ...]:
    """What `cdnc evaluate` stored by the paper's rule, a curve for each memory."""
    found: dict[str, Curve] = {}
    for path in evaluation_files(run.folder, PAPER_RULE):
        for row in _rows(path, run.config.run_id):
            memory = in_slots(size_in(row))
            curve = found.setdefault(memory, Curve(row["selection"], memory, {}, row["iteration"]))
            curve.scores[row["length"]] = row["score"]
    return tuple(found.values())


def _rows(path: Path, run_id: str) -> list[dict[str, Any]]:
    """The rows of stored scores; without those that cannot be read the model can still be shown."""
    try:
        rows: list[dict[str, Any]] = read_table(path, SCHEMA).to_pylist()
        for row in rows:
            require_own(path, row, run_id)
            require_fields(path, row, _FITS)
    except RunError as error:
        logger.warning("its scores are not shown: %s", error)
        return []
    return rows


_FITS: Fields = {  # which values the rows of a curve can have
    "selection": lambda value: value == PAPER_RULE,
    "iteration": is_count,
    "length": is_count,
    "memory_size": is_count,
    "score": lambda value: isinstance(value, float),
}


def in_words(curves: Sequence[Curve], iterations: int) -> str:
    """The maximum lengths of each rule and iteration: a run may have been evaluated twice."""
    of_one: dict[tuple[str, int | None], list[Curve]] = {}
    for curve in curves:
        of_one.setdefault((curve.rule, curve.iteration), []).append(curve)
    return " ".join(
        f"{_parameters(rule, iteration, iterations)}: {_lengths(of)}."
        for (rule, iteration), of in of_one.items()
    )


def paper_in_words(task: str, approach: str) -> str:
    """The same of the paper; empty for a task or an approach that is not its own."""
    key = task, approach
    if key not in published.max_lengths(False):
        return ""
    fixed, larger = (published.max_lengths(large)[key] for large in (False, True))
    average = published.average_scores(False)[key].median
    first, last = published.TRAINING_LENGTHS
    return (
        f"The paper's {approach} (rule {PAPER_RULE}, {published.ITERATIONS} iterations on lengths "
        f"{first} to {last}, medians of {published.TRIALS} trials): maximum length {fixed} with "
        f"{in_slots(published.SLOTS)} ({_average_in_words(average)}), {larger} with "
        f"{in_slots(extended(published.SLOTS))}."
    )


def in_slots(size: MemorySize) -> str:
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
