"""The DataFrames behind every table, figure and claim of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from constrained_dnc.config import MASTERED, PAPER, PAPER_RULE, SUPPLEMENT_C, extended
from constrained_dnc.parts import APPROACHES
from constrained_dnc.report import published, statistics
from constrained_dnc.study import Study

DEFAULT_RULE = "score"
"""The selection rule that reports show first."""
NETWORK, DIGITAL = "network", "digital"
"""Kinds of inference."""
KEY = ["memory", "task", "approach"]
Key = tuple[str, str, str]
MEASURES = {"entries": "score", "whole": "sequence_accuracy"}
"""What a maximum length is measured by, and the column of the results that has it."""
PROPERTIES = {"curvature": "curvature", "drift": "drift", "state_count": "state count"}
"""Names in tables of what is compared with the average score; any scalar of the analyses is."""
EXPLAINED = "explained_variance"


@dataclass(frozen=True)
class Findings:
    """A study by one selection rule and kind of inference, computed when first needed.

    With `iterations`, as it stood after that many.
    """

    study: Study
    selection: str
    inference: str = NETWORK
    iterations: int | None = None

    @cached_property
    def digital(self) -> Findings:
        """Findings by the same rule with digital inference."""
        return replace(self, inference=DIGITAL)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The results; a length that was given up counts as all wrong."""
        frame = self.study.results
        if self.iterations is not None:
            frame = self.study.history[self.study.history["iterations"] == self.iterations]
        chosen = (frame["selection"] == self.selection) & (frame["inference"] == self.inference)
        return frame[chosen].fillna({"score": 0.0, "sequence_accuracy": 0.0})

    @cached_property
    def is_comparable(self) -> bool:
        """Whether the paper's numbers mean the same: its slots, training lengths and a cell."""
        study, paper = self.study, (*published.APPROACHES, *SUPPLEMENT_C)
        is_its_setting = study.memory_size == PAPER.model.memory_size
        is_its_setting &= study.training_lengths == published.TRAINING_LENGTHS
        shared = {*study.tasks} & {*published.TASKS} and {*study.approaches} & {*paper}
        return is_its_setting and bool(shared)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The paper's tasks in its order, then the others."""
        return _in_order(self.study.tasks, published.TASKS)

    @cached_property
    def approaches(self) -> tuple[str, ...]:
        """The paper's approaches in its order, then the others."""
        return _in_order(self.study.approaches, APPROACHES)

    @property
    def labels(self) -> tuple[str, ...]:
        """The order of names in tables."""
        return *self.tasks, *self.approaches

    @cached_property
    def memories(self) -> tuple[str, ...]:
        """The memories that were evaluated, the trained one first."""
        evaluated = set(self.rows["memory"])
        return tuple(memory for memory in self.study.memories if memory in evaluated)

    @property
    def trained_memory(self) -> str:
        """The number of slots in training, as text."""
        return str(self.study.memory_size)

    @cached_property
    def curves(self) -> dict[Key, pd.DataFrame]:
        """Share of correct entries: a row per trial (seed, run id), a column per length."""
        return self._trials_by_length("score")

    def _trials_by_length(self, column: str) -> dict[Key, pd.DataFrame]:
        return {
            (str(memory), str(task), str(approach)): group.pivot(
                index=["seed", "run_id"], columns="length", values=column
            )
            for (memory, task, approach), group in self.rows.groupby(KEY, sort=False)
        }

    def keys(
        self, memories: Sequence[str], tasks: Sequence[str], approaches: Sequence[str] | None = None
    ) -> list[Key]:
        """The keys of existing curves among these, by default for all approaches."""
        names = self.approaches if approaches is None else approaches
        return [key for key in product(memories, tasks, names) if key in self.curves]

    def tasks_with(self, memory: str) -> list[str]:
        """The tasks that have curves with a memory."""
        return [task for task in self.tasks if self.keys([memory], [task])]

    def trial_lines(self, key: Key) -> dict[str, pd.Series]:
        """By seed, the scores of a trial at the lengths it was evaluated at."""
        chosen = (self.rows[KEY] == list(key)).all(axis=1) & (self.rows["batches"] > 0)
        trials = self.rows[chosen].groupby("seed")
        return {f"seed {seed}": rows.set_index("length")["score"] for seed, rows in trials}

    @cached_property
    def floors(self) -> dict[str, pd.Series]:
        """By task, the score of the best answer that ignores the input, by length."""
        measured = self.rows.dropna(subset="floor").groupby("task")
        return {str(task): rows.groupby("length")["floor"].first() for task, rows in measured}

    def floor_line(self, task: str, memories: Sequence[str]) -> pd.Series:
        """The floor of a task, up to the longest length evaluated with these memories."""
        floor = self.floors.get(task, pd.Series(dtype=float))
        ends = [self.curves[key].columns[-1] for key in self.keys(memories, [task])]
        return floor[floor.index <= max(ends, default=0)]

    def solvable(self, key: Key, curve: pd.DataFrame | None = None) -> pd.DataFrame:
        """A curve at the lengths that count for a maximum: those with a floor below 95 %."""
        curve = self.curves[key] if curve is None else curve
        floor = self.floors.get(key[1], pd.Series(dtype=float)).reindex(curve.columns)
        return curve.loc[:, ~(floor >= MASTERED)]

    @cached_property
    def lengths(self) -> pd.DataFrame:
        """Maximum lengths by (memory, task, approach, measure).

        Columns: `length`, its interval over trials from `low` to `high`, and `each`, the length of
        each trial. Measures: right `entries` and `whole` answers.
        """
        records = []
        for measure, column in MEASURES.items():
            for key, curve in self._trials_by_length(column).items():
                solvable = self.solvable(key, curve)
                scores, lengths = solvable.to_numpy(), solvable.columns.to_numpy()
                length = statistics.max_length(scores, lengths)
                interval = statistics.max_length_interval(scores, lengths)
                by_trial = tuple(statistics.max_length(trial[None], lengths) for trial in scores)
                records.append((*key, measure, length, *interval, by_trial))
        columns = [*KEY, "measure", "length", "low", "high", "each"]
        return pd.DataFrame(records, columns=columns).set_index(columns[:4]).sort_index()

    @cached_property
    def training_scores(self) -> dict[Key, pd.Series]:
        """By seed, the mean score of a trial over its training lengths."""
        rows = self.rows[self.rows["length"].between(*self.study.training_lengths)]
        return {
            (str(memory), str(task), str(approach)): trials.groupby("seed")["score"].mean()
            for (memory, task, approach), trials in rows.groupby(KEY, sort=False)
        }

    def unlearnt(self, key: Key) -> pd.Series:
        """By seed, the scores at training lengths of the trials that do not solve them."""
        scores = self.training_scores.get(key, pd.Series(dtype=float))
        return scores[scores < MASTERED]

    @cached_property
    def averages(self) -> pd.DataFrame:
        """The average score of every trial: memory, task, approach, seed, run_id, average."""
        spans = {memory: self.averaged_lengths(memory) for memory in {*self.rows["memory"]}}
        ends = np.array([spans[memory] for memory in self.rows["memory"]], int).reshape(-1, 2)
        rows = self.rows[self.rows["length"].between(*ends.T)]
        means = rows.groupby([*KEY, "seed", "run_id"], sort=False)["score"].mean()
        return means.rename("average").reset_index()

    def averages_of(self, key: Key) -> pd.Series:
        """The average scores of the trials of one memory, task and approach, by run id."""
        chosen = (self.averages[KEY] == list(key)).all(axis=1)
        return self.averages[chosen].set_index("run_id")["average"]

    def averaged_lengths(self, memory: str) -> tuple[int, int]:
        """The first and last length of averages; in the paper's setting 2 and 45, or 450."""
        if not self.is_comparable:
            evaluated = self.rows.loc[self.rows["memory"] == memory, "length"]
            return int(evaluated.min()), int(evaluated.max())
        is_trained = memory == self.trained_memory
        last = published.AVERAGE_UP_TO if is_trained else published.AVERAGE_UP_TO_EXTENDED
        return published.AVERAGE_FROM, last

    def paper(self, values: Callable[[bool], dict[Any, Any]], memory: str) -> dict[Any, Any]:
        """Values of the paper with this memory; none where they cannot be compared."""
        sizes = [self.trained_memory, str(extended(self.study.memory_size))]
        return values(memory == sizes[1]) if self.is_comparable and memory in sizes else {}

    def pair_tests(self, memory: str, others: bool = False) -> list[statistics.PairTest]:
        """Tests of all pairs of approaches; where the paper can be compared, of its five.

        The other pairs, by `others`, are then adjusted separately: the paper's table stays its own.
        """
        papers = {*(published.APPROACHES if self.is_comparable else self.approaches)}
        every = combinations(self.approaches, 2)
        pairs = [pair for pair in every if papers.issuperset(pair) != others]
        frame = self.averages[self.averages["memory"] == memory]
        groups = frame.groupby(["task", "approach"])["average"]
        averages = {(str(task), str(name)): group.to_numpy() for (task, name), group in groups}
        return statistics.pairwise_tests(averages, self.tasks, pairs)

    @cached_property
    def paper_tests(self) -> list[statistics.PairTest]:
        """The tests of the paper's table, with the slots of training."""
        return self.pair_tests(self.trained_memory)

    @cached_property
    def instances(self) -> pd.DataFrame:
        """Every trial with its average score, the scalars of its analyses and its state count.

        NaN where a run has no analysis, no state, or no count.
        """
        frame = self.averages[self.averages["memory"] == self.trained_memory]
        scalars = [_scalars(self.study.analysis(run_id)) for run_id in frame["run_id"]]
        frame = frame.join(pd.DataFrame(scalars, index=frame.index, dtype=float))
        counts = self.rows.groupby("run_id")["state_count"].first()
        return frame.assign(state_count=frame["run_id"].map(counts))

    @cached_property
    def properties(self) -> dict[str, str]:
        """Names of the properties that some trial has, by the column of `instances`."""
        described = self.instances.drop(columns=self.averages.columns).dropna(
            axis="columns", how="all"
        )
        columns = _in_order(described.columns.drop(EXPLAINED, errors="ignore"), PROPERTIES)
        return {name: PROPERTIES.get(name, name.replace("_", " ")) for name in columns}

    @property
    def pooled(self) -> tuple[str, ...]:
        """The approaches over which properties are compared; the paper's four with a state."""
        return published.STATEFUL if self.is_comparable else self.approaches

    def correlations(self, name: str = "curvature") -> list[statistics.Correlation]:
        """A property against the average score per task, over the pooled approaches."""
        defined = self.instances.dropna(subset=name)
        pooled = defined[defined["approach"].isin(self.pooled)]
        samples = {
            task: (rows[name].to_numpy(), rows["average"].to_numpy())
            for task in self.tasks
            if len(rows := pooled[pooled["task"] == task])
        }
        return statistics.correlations(samples)

    def ranked(self, task: str, approach: str) -> pd.Series:
        """Average scores of the trials by run id, best first."""
        scores = self.averages_of((self.trained_memory, task, approach))
        return scores.sort_values(ascending=False, kind="stable")


def by_rule(study: Study) -> dict[str, Findings]:
    """The findings of every selection rule, the default first, then the paper's."""
    rules = _in_order(study.selections, (DEFAULT_RULE, PAPER_RULE)) or (DEFAULT_RULE,)
    return {rule: Findings(study, rule) for rule in rules}


def beside_paper(rules: Mapping[str, Findings]) -> dict[str, Findings]:
    """By the default rule and, where the paper's numbers stand beside it, by the paper's."""
    main, first = next(iter(rules.items()))
    shown = (main, PAPER_RULE) if first.is_comparable else (main,)
    return {rule: findings for rule, findings in rules.items() if rule in shown}


def stages_of(findings: Findings) -> dict[int, Findings]:
    """The findings of an extended study after every evaluated number of iterations."""
    history = findings.study.history[["run_id", "iterations"]].drop_duplicates()
    grown = history[history.duplicated("run_id", keep=False)]["iterations"]
    return {int(at): replace(findings, iterations=int(at)) for at in sorted({*grown})}


def memory_name(study: Study, memory: str) -> str:
    """The name of a memory in titles and legends."""
    if not memory.isdecimal():
        return f"{memory} memory"
    return f"{memory} slots (training)" if int(memory) == study.memory_size else f"{memory} slots"


def _scalars(arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The numbers among the arrays of an analysis, but for counts of steps."""
    return {
        name: float(array)
        for name, array in arrays.items()
        if array.ndim == 0 and np.issubdtype(array.dtype, np.floating)
    }


def _in_order(names: Iterable[str], order: Iterable[str]) -> tuple[str, ...]:
    """Known names in their order, then the others."""
    names = tuple(names)
    return tuple(dict.fromkeys([*(name for name in order if name in names), *names]))
