"""The DataFrames behind every table, figure and claim of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd

from constrained_dnc import published
from constrained_dnc.analysis import statistics
from constrained_dnc.approaches import USED_SLOTS
from constrained_dnc.choices import PAPER_RULE
from constrained_dnc.results import with_failures_as_zero
from constrained_dnc.study import Study

DEFAULT_RULE = "score"
"""The selection rule that reports show first."""
KEY = ["memory", "task", "approach"]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Findings:
    """A study by one selection rule; with `iterations`, as it stood after that many.

    Everything is computed when first needed.
    """

    study: Study
    selection: str
    iterations: int | None = None

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The network's rows of this rule; a length that was given up counts as all wrong."""
        frame = self.study.results
        if self.iterations is not None:
            frame = self.study.history[self.study.history["iterations"] == self.iterations]
        is_ours = (frame["selection"] == self.selection) & (frame["inference"] == "network")
        return with_failures_as_zero(frame[is_ours])

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The paper's tasks in its order, then the others."""
        return _in_order(self.study.tasks, published.TASKS)

    @cached_property
    def approaches(self) -> tuple[str, ...]:
        """The paper's approaches in its order, then the others."""
        known = (*published.APPROACHES, *published.SUPPLEMENT_C, *USED_SLOTS)
        return _in_order(self.study.approaches, known)

    @cached_property
    def memories(self) -> tuple[str, ...]:
        """The memories that this rule was evaluated with, that of training first."""
        evaluated = set(self.rows["memory"])
        return tuple(memory for memory in self.study.memories if memory in evaluated)

    @property
    def trained_memory(self) -> str:
        """The number of slots in training, as text."""
        return str(self.study.memory_size)

    @cached_property
    def curves(self) -> dict[Key, pd.DataFrame]:
        """Share of right entries: a row per trial (seed, run id), a column per length."""
        return _trials_by_length(self.rows, "score")

    @cached_property
    def batches(self) -> dict[Key, pd.DataFrame]:
        """Evaluated batches behind `curves`: 0 at lengths after a trial was given up."""
        return _trials_by_length(self.rows, "batches")

    def keys(
        self,
        memories: Sequence[str],
        tasks: Sequence[str],
        approaches: Sequence[str] | None = None,
    ) -> list[Key]:
        """The keys of existing curves among these, by default for all approaches."""
        names = self.approaches if approaches is None else approaches
        return [key for key in product(memories, tasks, names) if key in self.curves]

    def tasks_with(self, memory: str) -> list[str]:
        """The tasks that have curves with a memory."""
        return [task for task in self.tasks if self.keys([memory], [task])]

    def trial_lines(self, key: Key) -> dict[str, pd.Series]:
        """By seed, the scores of a trial at the lengths it was evaluated at."""
        curve, batches = self.curves[key], self.batches[key].to_numpy()
        rows = zip(curve.index, curve.to_numpy(), batches > 0, strict=True)
        return {
            f"seed {seed}": pd.Series(scores[known], curve.columns[known])
            for (seed, _), scores, known in rows
        }

    def floor_line(self, task: str, memories: Sequence[str]) -> pd.Series:
        """The floor of a task, up to the longest length evaluated with these memories."""
        floor = self.floors.get(task, pd.Series(dtype=float))
        ends = [self.curves[key].columns[-1] for key in self.keys(memories, [task])]
        return floor[floor.index <= max(ends, default=0)]

    @cached_property
    def whole_answers(self) -> dict[Key, pd.DataFrame]:
        """Share of answers without a wrong entry, laid out like `curves`."""
        return _trials_by_length(self.rows, "sequence_accuracy")

    @cached_property
    def floors(self) -> dict[str, pd.Series]:
        """By task, the score of the best answer that ignores the input, by length."""
        known = self.rows.dropna(subset="floor").groupby("task")
        return {str(task): rows.groupby("length")["floor"].first() for task, rows in known}

    def solvable_curve(self, key: Key) -> pd.DataFrame:
        """The curve of a key at the lengths that count for a maximum: with a floor below 95 %."""
        curve = self.curves[key]
        floor = self.floors.get(key[1], pd.Series(dtype=float)).reindex(curve.columns)
        return curve.loc[:, ~(floor >= published.MASTERED)]

    @cached_property
    def lengths(self) -> pd.DataFrame:
        """Maximum lengths by (memory, task, approach).

        By right `entries` and by `whole` answers, each with `_low` and `_high`, the interval over
        trials, and `_each`, a tuple with that of each trial; `training_score` and `trials`.
        """
        parts = ("", "_low", "_high", "_each")
        columns = [f"{measure}{part}" for measure in ("entries", "whole") for part in parts]
        records = [self._longest(key) for key in self.curves]
        names = [*KEY, *columns, "training_score", "trials"]
        return pd.DataFrame(records, columns=names).set_index(KEY).sort_index()

    def _longest(self, key: Key) -> dict[str, object]:
        curve = self.solvable_curve(key)
        whole = self.whole_answers[key].reindex(columns=curve.columns)
        lengths = curve.columns.to_numpy()
        record: dict[str, object] = dict(zip(KEY, key, strict=True))
        for measure, frame in (("entries", curve), ("whole", whole)):
            scores = frame.to_numpy()
            low, high = statistics.max_length_interval(scores, lengths) or (np.nan, np.nan)
            record |= {
                measure: statistics.max_length(scores, lengths),
                f"{measure}_low": low,
                f"{measure}_high": high,
                f"{measure}_each": tuple(
                    statistics.max_length(trial[None], lengths) for trial in scores
                ),
            }
        training = self.study.training_lengths
        score = statistics.training_score(curve.to_numpy(), lengths, training)
        return record | {"training_score": score, "trials": len(curve)}

    def training_scores(self, task: str) -> dict[str, float]:
        """By approach, the score at training lengths with the memory of training."""
        return {
            key[2]: float(row["training_score"])
            for key, row in zip(self.lengths.index, self.lengths.to_dict("records"), strict=True)
            if key[:2] == (self.trained_memory, task)
        }

    @cached_property
    def averages(self) -> pd.DataFrame:
        """The average score of every trial: memory, task, approach, seed, run_id, average."""
        frames = []
        for (memory, task, approach), curve in self.curves.items():
            up_to = self.average_up_to(memory)
            mean = statistics.average_scores(curve.to_numpy(), curve.columns.to_numpy(), up_to)
            frame = curve.index.to_frame(index=False).assign(average=mean)
            frames.append(frame.assign(memory=memory, task=task, approach=approach))
        columns = [*KEY, "seed", "run_id", "average"]
        return pd.concat(frames)[columns] if frames else pd.DataFrame(columns=columns)

    def averages_of(self, key: Key) -> np.ndarray:
        """The average scores of the trials of one memory, task and approach."""
        chosen = (self.averages[KEY] == list(key)).all(axis=1)
        return self.averages.loc[chosen, "average"].to_numpy()

    def average_up_to(self, memory: str) -> int:
        """The longest length in the average, as in the paper: 45, with more slots 450."""
        is_trained = memory == self.trained_memory
        return published.AVERAGE_UP_TO if is_trained else published.AVERAGE_UP_TO_EXTENDED

    def averaged_lengths(self, memory: str) -> tuple[int, int]:
        """The first and last evaluated length in the average."""
        lengths = self.rows.loc[self.rows["memory"] == memory, "length"]
        lengths = lengths[lengths.between(published.AVERAGE_FROM, self.average_up_to(memory))]
        return (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)

    def in_paper(self, memory: str) -> bool | None:
        """Whether the paper's tables for this memory are extended ones; None if it has none."""
        slots = {str(self.study.memory_size): False, str(10 * self.study.memory_size): True}
        return slots.get(memory)

    def pair_tests(self, memory: str, others: bool = False) -> list[statistics.PairTest]:
        """All pairs of the paper's five approaches, adjusted together; or all pairs with others.

        Others are adjusted separately, so that the paper's table stays comparable.
        """
        papers = set(published.APPROACHES)
        pairs = [
            pair
            for pair in statistics.all_pairs(self.approaches)
            if (not papers.issuperset(pair)) == others
        ]
        frame = self.averages[self.averages["memory"] == memory]
        groups = frame.groupby(["task", "approach"])["average"]
        return statistics.pairwise_tests(
            {(str(task), str(name)): group.to_numpy() for (task, name), group in groups},
            self.tasks,
            pairs,
        )

    @cached_property
    def paper_tests(self) -> list[statistics.PairTest]:
        """The tests of the paper's table without extension."""
        return self.pair_tests(self.trained_memory)

    @cached_property
    def instances(self) -> pd.DataFrame:
        """Every trial with analysed states, with its curvature, explained variance and average."""
        frame = self.averages[self.averages["memory"] == self.trained_memory]
        names = ["curvature", "explained_variance"]
        arrays = [self.study.analysis(run_id, *names) for run_id in frame["run_id"]]
        values = [[float(each.get(name, np.nan)) for name in names] for each in arrays]
        frame = frame.assign(**dict(zip(names, np.reshape(values, (-1, 2)).T, strict=True)))
        return frame.dropna(subset="curvature")

    @cached_property
    def correlations(self) -> list[statistics.Correlation]:
        """Curvature against average score per task, over the approaches that the paper pools."""
        pooled = self.instances[self.instances["approach"].isin(published.STATEFUL)]
        samples = {
            task: (rows["curvature"].to_numpy(), rows["average"].to_numpy())
            for task in self.tasks
            if len(rows := pooled[pooled["task"] == task])
        }
        return statistics.correlations(samples)

    def ranked(self, task: str, approach: str) -> pd.Series:
        """Average scores of the trials by run id, best first."""
        frame = self.averages[self.averages["memory"] == self.trained_memory]
        frame = frame[(frame["task"] == task) & (frame["approach"] == approach)]
        return frame.set_index("run_id")["average"].sort_values(ascending=False, kind="stable")


def by_rule(study: Study) -> dict[str, Findings]:
    """The findings of every selection rule, the default first, then the paper's."""
    order = (DEFAULT_RULE, PAPER_RULE)
    rules = _in_order(study.selections, order) or (DEFAULT_RULE,)
    return {rule: Findings(study, rule) for rule in rules}


def beside_paper(rules: Mapping[str, Findings]) -> dict[str, Findings]:
    """The default rule and the paper's: both stand wherever the paper's number does."""
    main = next(iter(rules))
    return {rule: findings for rule, findings in rules.items() if rule in (main, PAPER_RULE)}


def memory_name(study: Study, memory: str) -> str:
    """The name of a memory in titles and legends."""
    if not memory.isdecimal():
        return f"{memory} memory"
    return f"{memory} slots (training)" if int(memory) == study.memory_size else f"{memory} slots"


def stages_of(findings: Findings) -> dict[int, Findings]:
    """For a study that was extended: its findings after every evaluated number of iterations."""
    history = findings.study.history[["run_id", "iterations"]].drop_duplicates()
    grown = history[history.duplicated("run_id", keep=False)]["iterations"]
    return {
        int(at): Findings(findings.study, findings.selection, int(at)) for at in sorted({*grown})
    }


def _trials_by_length(rows: pd.DataFrame, column: str) -> dict[Key, pd.DataFrame]:
    return {
        (str(memory), str(task), str(approach)): group.pivot(
            index=["seed", "run_id"], columns="length", values=column
        )
        for (memory, task, approach), group in rows.groupby(KEY, sort=False)
    }


def _in_order(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Known names in their order, then the others."""
    names = tuple(names)
    return tuple(dict.fromkeys([*(name for name in known if name in names), *names]))
