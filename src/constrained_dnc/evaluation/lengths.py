"""Evaluation over input lengths and memory sizes, into one table with a row for each pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import pyarrow as pa

from constrained_dnc.choices import BackendChoice, SelectionRule
from constrained_dnc.config import parse_lengths
from constrained_dnc.cores import MAX_THREADS
from constrained_dnc.errors import RunError, SettingError, require_integer
from constrained_dnc.evaluation.memories import memory_for, size_in, source_of
from constrained_dnc.evaluation.scores import MeanScores, mean_scores
from constrained_dnc.files import make_folder
from constrained_dnc.model.backend import AbstractBackend
from constrained_dnc.model.config import GROWING, MemorySize, require_memory_size
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.storage import read_table, write_table
from constrained_dnc.study.disk import SCHEMA, results_table
from constrained_dnc.tasks.problems import read_problems
from constrained_dnc.tasks.task import AbstractTask, Answer, Problem
from constrained_dnc.training.disk import evaluation_file
from constrained_dnc.training.run import Run, Selected, Status, backend_for, load_run
from constrained_dnc.training.streams import evaluation_batch

LOWEST_SCORE = 0.5
"""Below it, a growing memory is not measured at longer inputs than that."""
PROBLEMS_AT_ONCE = 64
MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class Planned:
    """One row to come."""

    length: int
    memory_size: MemorySize
    batches: int


def evaluate(
    run: Run | str | Path,
    *,
    lengths: Iterable[SupportsIndex] | None = None,
    memory_sizes: Iterable[SupportsIndex | str] | None = None,
    batches: int | None = None,
    selection: SelectionRule | None = None,
    backend: BackendChoice = "auto",
    threads: int | None = None,
    progress: Callable[[float, float, Planned], None] | None = None,
    store: bool = True,
) -> pa.Table:
    """Score the selected parameters of a run, also of one that is still training.

    Lengths and batches are those of the run's config unless given: one list for the memory size
    of training, another for all others, "growing" among them: a memory that grows with the input,
    measured up to the first length beyond training with less than half of the entries right.
    Every memory size has a Parquet file in the run directory unless `store` is off.
    `progress` gets the steps done, the steps in all and the current row.
    """
    run = run if isinstance(run, Run) else load_run(run)
    plan = make_plan(run, lengths, memory_sizes, batches)
    selection = selection or run.default_rule
    selected = run.selected(selection)
    computing = evaluation_backend(run, selected.model, backend, threads)
    status, rows = run.checked_status(), []
    total = sum(_work(run, planned) for planned in plan)
    done = 0.0
    memories = {p.memory_size: memory_for(run, p.memory_size, selected) for p in plan}
    given_up = math.inf  # the length
    for planned in plan:
        if progress is not None:
            progress(done, total, planned)
        done += _work(run, planned)
        if planned.memory_size == GROWING and planned.length > given_up:
            continue
        scores = _score(run, computing, selected.model, planned, memories[planned.memory_size])
        rows.append(_row(run, status, selected, selection, planned, scores))
        is_beyond_training = planned.length > run.config.training.max_length
        if planned.memory_size == GROWING and is_beyond_training and scores.score < LOWEST_SCORE:
            given_up = planned.length
    if progress is not None:
        progress(done, total, plan[-1])
    table = results_table(rows)
    if store:
        store_scores(run, table, selection)
    return table


def predict(
    run: Run | str | Path,
    problem: Any,
    *,
    memory_size: MemorySize | None = None,
    selection: SelectionRule | None = None,
    backend: BackendChoice = "auto",
) -> Answer:
    """The answer of a run's model to a problem, or the list of its answers to several.

    A problem is text, plain values or an array: "3 1 4", (3, 1, 4), numpy.array([3, 1, 4]).
    Several, in a list, a tuple or an array of one more dimension, may differ in length.
    """
    run = run if isinstance(run, Run) else load_run(run)
    problems, is_one = read_problems(run.task, problem)
    selected = run.selected(selection)
    model = selected.model
    computing = evaluation_backend(run, model, backend, threads=1)
    memory: int | Growing | None = None
    if memory_size is not None:
        require_memory_size(memory_size)
        memory = memory_for(run, memory_size, selected)
    answers: list[Answer] = [None] * len(problems)
    for places in _alike(run.task, problems):
        batch = run.task.batch_of([problems[place] for place in places])
        outputs = computing.forward(model, batch.inputs, memory).outputs
        decoded = run.task.decode(np.asarray(outputs), batch.length)
        for place, answer in zip(places, decoded, strict=True):
            answers[place] = answer
    return answers[0] if is_one else answers


def _alike(task: AbstractTask, problems: Sequence[Problem]) -> Iterator[list[int]]:
    """The places of problems of one length, in batches."""
    by_length: dict[int, list[int]] = {}
    for place, problem in enumerate(problems):
        by_length.setdefault(task.length_of(problem), []).append(place)
    for places in by_length.values():
        for start in range(0, len(places), PROBLEMS_AT_ONCE):
            yield places[start : start + PROBLEMS_AT_ONCE]


def evaluation_backend(
    run: Run, model: DNC, backend: BackendChoice, threads: int | None
) -> AbstractBackend:
    """The backend for a trained model; it need not be that of training."""
    if threads is not None:
        require_integer("threads", threads, 1, MAX_THREADS)
    return backend_for(run.config, model, backend, threads)


def make_plan(
    run: Run,
    lengths: Iterable[SupportsIndex] | None,
    memory_sizes: Iterable[SupportsIndex | str] | None,
    batches: int | None,
) -> list[Planned]:
    """The rows of a table, the memory sizes one after the other."""
    evaluation, trained = run.config.evaluation, run.config.model.memory_size
    if batches is not None:
        require_integer("batches", batches, 1)
    lengths = _listed("lengths", lengths)
    plan: list[Planned] = []
    for size in _listed("memory_sizes", memory_sizes) or (trained,):
        require_memory_size(size)
        memory_size: MemorySize = GROWING if isinstance(size, str) else int(size)
        is_extended = memory_size != trained
        default_lengths = evaluation.extension_lengths if is_extended else evaluation.lengths
        default_batches = evaluation.extension_batches if is_extended else evaluation.batches
        for length in lengths or parse_lengths(default_lengths):
            require_integer("length", length, 1)
            if len(plan) == MOST_ROWS:
                accepted = f"at most {MOST_ROWS} pairs of them"
                raise SettingError("lengths and memory sizes", "more", accepted)
            plan.append(Planned(int(length), memory_size, batches or default_batches))
    if len(set(plan)) < len(plan):
        given = {"lengths": lengths, "memory_sizes": memory_sizes}
        raise SettingError("what to evaluate", given, "every length and every memory size once")
    return plan


def _listed(setting: str, given: Any) -> list[Any] | None:
    """What was given as a list, an array or the like; None stands for what is evaluated anyway."""
    if given is None:
        return None
    try:
        values = list(given)
    except TypeError:
        values = []
    if not values or isinstance(given, str):
        raise SettingError(setting, given, "a list of at least one, or None")
    return values


def _work(run: Run, planned: Planned) -> float:
    """How long a row takes, roughly: time in the link matrix grows with the slots squared."""
    slots = planned.memory_size
    if slots == GROWING:
        slots = run.config.model.memory_size + planned.length
    return run.task.num_steps(planned.length) * planned.batches * float(slots + 50) ** 2


def _score(
    run: Run, backend: AbstractBackend, model: DNC, planned: Planned, memory: int | Growing
) -> MeanScores:
    task = run.task
    scores = []
    for index in range(planned.batches):
        batch = evaluation_batch(task, run.config, planned.length, index)
        outputs = backend.forward(model, batch.inputs, memory).outputs
        scores.append(task.score(batch, np.asarray(outputs)))
    return mean_scores(scores)


def _row(
    run: Run,
    status: Status,
    selected: Selected,
    selection: SelectionRule,
    planned: Planned,
    scores: MeanScores,
) -> dict[str, Any]:
    config, trained = run.config, run.config.model.memory_size
    return {
        "run_id": config.run_id,
        "task": run.task.name,
        "approach": config.approach.name,
        "seed": config.seed,
        "iteration": selected.iteration,
        "selection": selection,
        "length": planned.length,
        "memory_size": trained if planned.memory_size == GROWING else planned.memory_size,
        "memory": source_of(planned.memory_size, trained),
        "batches": planned.batches,
        "batch_size": config.evaluation.batch_size,
        "score_kind": run.task.score_kind,
        "score": scores.score,
        "sequence_accuracy": scores.sequence_accuracy,
        "recall": scores.recall,
        "skipped_updates": status.skipped_updates,
        "iterations": status.iteration,
        "status": status.state,
    }


def store_scores(run: Run, table: pa.Table, selection: SelectionRule) -> None:
    """One file per memory size, so that a second evaluation replaces the first."""
    make_folder(run.products)
    sizes = [*map(size_in, table.select(["memory", "memory_size"]).to_pylist())]
    for memory_size in dict.fromkeys(sizes):
        part = table.filter(pa.array([size == memory_size for size in sizes]))
        write_table(evaluation_file(run.products, selection, memory_size), part)


def evaluated(
    run: Run, memory_size: MemorySize, selection: SelectionRule, threads: int | None = None
) -> pa.Table:
    """The stored table if it is whole and of the parameters selected now, else a new one."""
    try:
        table = read_table(evaluation_file(run.folder, selection, memory_size), SCHEMA)
    except RunError:  # there is none, or it is damaged
        table = SCHEMA.empty_table()
    trained = run.config.model.memory_size
    about = {
        "run_id": run.config.run_id,
        "selection": selection,
        "memory": source_of(memory_size, trained),
        "memory_size": trained if memory_size == GROWING else memory_size,
        "iterations": run.checked_status().iteration,
        "iteration": run.selected(selection).iteration,
    }
    columns = (table[name].to_pylist() for name in (*about, "length", "batches"))
    plan = make_plan(run, None, [memory_size], None)
    wanted = [(*about.values(), planned.length, planned.batches) for planned in plan]
    stored = list(zip(*columns, strict=True))
    was_given_up = memory_size == GROWING and 0 < len(stored) < len(wanted)
    was_given_up = was_given_up and plan[len(stored) - 1].length > run.config.training.max_length
    was_given_up = was_given_up and table["score"][-1].as_py() < LOWEST_SCORE
    if stored == wanted or (was_given_up and stored == wanted[: len(stored)]):
        return table
    return evaluate(run, memory_sizes=[memory_size], selection=selection, threads=threads)
