"""The search task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.errors import SettingError
from constrained_dnc.tasks.entries import (
    format_entries,
    integer_or_none,
    label_columns,
    round_off,
)
from constrained_dnc.tasks.numeral import (
    NUM_NUMERALS,
    accepted_numerals,
    check_numerals,
    draw_numerals,
    parse_numerals,
)
from constrained_dnc.tasks.problems import AbstractProblemTask
from constrained_dnc.tasks.task import Batch, CellLabels, Problem, Scores

END_THRESHOLD = 0.8  # a signal above it ends the answer


class SearchProblem(NamedTuple):
    """Where in the data is the queried numeral?"""

    data: tuple[int, ...]
    query: int


class Search(AbstractProblemTask):
    """The positions of the queried numeral, ascending.

    Answers are indices from 0; the network gives them relative to the last one, from 0 to 1.

    >>> task = Search()
    >>> task.solve(SearchProblem((2, 4, 2, 1, 2), query=2))
    (0, 2, 4)
    >>> problem = task.parse("2 3 2 1 2 ? 2")
    >>> task.batch_of([problem]).targets[8:12, 0].tolist()
    [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0], [0.0, 1.0]]

    Data at steps 1..L, control at L+1, query at L+2, control at L+3, positions from L+4, then the
    end signal. As the number of positions varies, samples are padded to the most steps, 2L+4.
    With L = 1 the only position is 0.
    """

    name = "search"
    summary = "the relative positions of a queried numeral, ascending"
    input_channels = ("numeral", "control")
    output_channels = ("position", "signal")
    score_kind = "hit rate"

    def num_steps(self, length: int) -> int:
        return 2 * length + 4

    def length_of(self, problem: SearchProblem) -> int:
        data, _ = problem
        return len(data)

    def draw(
        self, generator: np.random.Generator, batch_size: int, length: int
    ) -> tuple[SearchProblem, ...]:
        data = draw_numerals(generator, batch_size, length, NUM_NUMERALS)
        queries = generator.integers(NUM_NUMERALS, size=batch_size).tolist()
        return tuple(map(SearchProblem, data, queries))

    def check(self, problem: Problem) -> None:
        if not isinstance(problem, Sequence) or len(problem) != 2:
            raise SettingError("problem", problem, "a pair of data and query")
        data, query = problem
        check_numerals("data", data, NUM_NUMERALS)
        check_numerals("query", (query,), NUM_NUMERALS)

    def encode(self, problems: tuple[SearchProblem, ...]) -> Batch:
        data = np.array([data for data, _ in problems])
        queries = np.array([query for _, query in problems])
        batch_size, length = data.shape
        first = length + 3  # the step of the first position, counted from 0
        steps = self.num_steps(length)

        inputs = np.zeros((steps, batch_size, 2), np.float32)
        inputs[:length, :, 0] = data.T / (NUM_NUMERALS - 1)
        inputs[length + 1, :, 0] = queries / (NUM_NUMERALS - 1)
        inputs[[length, length + 2], :, 1] = 1.0

        is_hit = data == queries[:, np.newaxis]
        rank = is_hit.cumsum(axis=1) - 1
        count = is_hit.sum(axis=1)
        sample, index = np.nonzero(is_hit)
        targets = np.zeros((steps, batch_size, 2), np.float32)
        targets[first + rank[sample, index], sample, 0] = index / max(length - 1, 1)
        targets[first + count, np.arange(batch_size), 1] = 1.0

        step = np.arange(steps)[:, np.newaxis]
        mask = (step >= first) & (step <= first + count)
        return Batch(inputs, targets, mask, first + count + 1, length, problems)

    def solve(self, problem: SearchProblem) -> tuple[int, ...]:
        data, query = problem
        return tuple(index for index, numeral in enumerate(data) if numeral == query)

    def cell_labels(self, problem: SearchProblem) -> tuple[CellLabels, CellLabels]:
        data, query = problem
        positions, first = self.solve(problem), len(data) + 3
        numerals = {step: str(numeral) for step, numeral in enumerate(data)}
        inputs = {
            "numeral": numerals | {len(data) + 1: str(query)},
            "control": {len(data): "1", len(data) + 2: "1"},
        }
        targets = {
            "position": {first + offset: str(index) for offset, index in enumerate(positions)},
            "signal": {first + len(positions): "1"},
        }
        return inputs, targets

    def output_labels(self, outputs: Float[np.ndarray, "time outputs"], length: int) -> CellLabels:
        indices, _ = _listed(outputs[:, np.newaxis], length)
        signals = 1.0 * (outputs[length + 3 :, 1] > END_THRESHOLD)
        columns = [indices[:, 0].tolist(), signals.tolist()]
        return label_columns(self.output_channels, columns, length + 3)

    def read(
        self, outputs: Float[np.ndarray, "time batch outputs"], length: int
    ) -> list[tuple[int | None, ...]]:
        indices, counts = _listed(outputs, length)
        return [
            tuple(map(integer_or_none, row[:count]))
            for row, count in zip(indices.T.tolist(), counts.tolist(), strict=True)
        ]

    def grade(self, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]) -> Scores:
        """Hit rate: entries right in their place / entries of the longer list; 1 if both are empty.

        Recall: entries right in their place / entries of the target list; 1 if that is empty.
        """
        answer, num_answered = _listed(outputs, batch.length)
        target, num_targets = _listed(batch.targets.astype(np.float64), batch.length)
        in_both = np.arange(batch.length + 1)[:, np.newaxis] < np.minimum(num_answered, num_targets)
        correct = ((answer == target) & in_both).sum(axis=0)
        hit_rate = _share(correct, np.maximum(num_answered, num_targets))
        return Scores(
            score=hit_rate,
            sequence_accuracy=(hit_rate == 1).astype(np.float64),
            recall=_share(correct, num_targets),
        )

    def parse(self, text: str) -> SearchProblem:
        """Data, a question mark, the query."""
        data, _, query = text.partition("?")
        try:
            numerals = parse_numerals("data", data, NUM_NUMERALS)
            (numeral,) = parse_numerals("query", query, NUM_NUMERALS)
        except (SettingError, ValueError):
            accepted = (
                f"{accepted_numerals(NUM_NUMERALS)}, then ? and one of them, such as '2 1 2 4 ? 2'"
            )
            raise SettingError("problem", text, accepted) from None
        return SearchProblem(numerals, numeral)

    def format_problem(self, problem: SearchProblem) -> str:
        data, query = problem
        return f"{format_entries(data)} ? {query}"

    def format_answer(self, answer: Sequence[int | None]) -> str:
        return super().format_answer(answer) or "none"


def _listed(
    outputs: Float[np.ndarray, "time batch outputs"], length: int
) -> tuple[Float[np.ndarray, "entries batch"], Int[np.ndarray, "batch"]]:
    """L+1 indices, and how many of them come before the first end signal.

    A signal that is not finite does not end the list.
    """
    position, signal = np.moveaxis(outputs[length + 3 :], 2, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        indices = round_off(position * (length - 1))
    ended = np.logical_or.accumulate((signal > END_THRESHOLD) & np.isfinite(signal))
    return indices, np.sum(~ended, axis=0)


def _share(
    count: Int[np.ndarray, "batch"], total: Int[np.ndarray, "batch"]
) -> Float[np.ndarray, "batch"]:
    return np.where(total == 0, 1.0, count / np.maximum(total, 1))
