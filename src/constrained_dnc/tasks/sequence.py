"""The base of sort, copy, differentiation, shift and add: L symbols in, L symbols out."""

from __future__ import annotations

import abc

import numpy as np
from jaxtyping import Float, Int

from constrained_dnc.tasks.entries import integer_or_none, label_columns, round_off
from constrained_dnc.tasks.problems import AbstractProblemTask
from constrained_dnc.tasks.task import Answer, Batch, CellLabels, Problem, Scores


class AbstractSequenceTask(AbstractProblemTask):
    """Input at steps 1..L, control at L+1, result at L+2..2L+1, end signal at 2L+2.

    Control and signal are the last channels. The loss covers the result and the end signal; the
    score covers the result channels at the L result steps.
    """

    def num_steps(self, length: int) -> int:
        return 2 * length + 2

    @abc.abstractmethod
    def symbols(self, problems: tuple[Problem, ...]) -> Int[np.ndarray, "batch length columns"]:
        """The problems' symbols, one column for each input channel but the control."""

    @abc.abstractmethod
    def results(
        self, symbols: Int[np.ndarray, "batch length columns"]
    ) -> Int[np.ndarray, "batch length results"]:
        """The results of a batch, one column for each output channel but the signal."""

    @abc.abstractmethod
    def scale(self, symbols: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Symbols as the network sees them."""

    @abc.abstractmethod
    def unscale(self, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """The symbols that outputs stand for; NaN where an output is not finite."""

    def entries(
        self, symbols: Float[np.ndarray, "batch length results"]
    ) -> Float[np.ndarray, "batch length"]:
        """The entries of answers, from their result symbols."""
        return symbols[:, :, 0]

    def encode(self, problems: tuple[Problem, ...]) -> Batch:
        symbols = self.symbols(problems)
        batch_size, length, _ = symbols.shape
        steps = self.num_steps(length)
        inputs = np.zeros((steps, batch_size, self.input_size), np.float32)
        targets = np.zeros((steps, batch_size, self.output_size), np.float32)
        inputs[:length, :, :-1] = self.scale(symbols).swapaxes(0, 1)
        inputs[length, :, -1] = 1.0
        targets[length + 1 : -1, :, :-1] = self.scale(self.results(symbols)).swapaxes(0, 1)
        targets[-1, :, -1] = 1.0
        mask = np.zeros((steps, batch_size), np.bool_)
        mask[length + 1 :] = True
        return Batch(inputs, targets, mask, np.full(batch_size, steps), length, problems)

    def cell_labels(self, problem: Problem) -> tuple[CellLabels, CellLabels]:
        symbols = self.symbols((problem,))
        *data, control = self.input_channels
        *answers, signal = self.output_channels
        length = symbols.shape[1]
        inputs = label_columns(data, symbols[0].T.astype(float).tolist(), 0)
        results = self.results(symbols)[0].T.astype(float).tolist()
        targets = label_columns(answers, results, length + 1)
        last = self.num_steps(length) - 1
        return inputs | {control: {length: "1"}}, targets | {signal: {last: "1"}}

    def output_labels(self, outputs: Float[np.ndarray, "time outputs"], length: int) -> CellLabels:
        symbols = self._result_symbols(outputs[:, np.newaxis], length)[:, 0]
        columns = [*symbols.T.tolist(), round_off(outputs[length + 1 :, -1]).tolist()]
        return label_columns(self.output_channels, columns, length + 1)

    def read(self, outputs: Float[np.ndarray, "time batch outputs"], length: int) -> list[Answer]:
        entries = self.entries(self._result_symbols(outputs, length).swapaxes(0, 1))
        return [tuple(map(integer_or_none, row)) for row in entries.tolist()]

    def grade(self, batch: Batch, outputs: Float[np.ndarray, "time batch outputs"]) -> Scores:
        targets = np.asarray(batch.targets, np.float64)
        answers, results = (self._result_symbols(y, batch.length) for y in (outputs, targets))
        correct = answers == results
        return Scores(correct.mean((0, 2)), correct.all((0, 2)).astype(np.float64))

    def _result_symbols(
        self, outputs: Float[np.ndarray, "time batch outputs"], length: int
    ) -> Float[np.ndarray, "length batch results"]:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.unscale(outputs[length + 1 : -1, :, :-1])
