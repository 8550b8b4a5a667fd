"""Evaluation over input lengths and memories, into one table with a row for each pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from constrained_dnc.config import EvaluationConfig, Inference, SelectionRule, parse_lengths
from constrained_dnc.errors import RunError, SettingError, require_integer
from constrained_dnc.evaluation.floors import floor, least_score_to_go_on
from constrained_dnc.evaluation.results import (
    concat_results,
    read_results_file,
    results_frame,
    sort_results,
)
from constrained_dnc.evaluation.trained import origin_of, outputs_of, trained_model
from constrained_dnc.files import make_folder, write_table
from constrained_dnc.model.backend import AbstractBackend
from constrained_dnc.model.config import GROWING, BackendChoice, MemorySize, require_memory_size
from constrained_dnc.model.dnc import DNC
from constrained_dnc.model.growing import Growing
from constrained_dnc.tasks.task import AbstractTask, Scores
from constrained_dnc.training.batches import evaluation_batch
from constrained_dnc.training.folder import EVALUATION
from constrained_dnc.training.loggers import logger
from constrained_dnc.training.run import Run, TrainedModel

SHARES = ("score", "sequence_accuracy", "recall")
KEY = ["task", "run_id", "selection", "iterations", "memory", "inference", "length"]
"""The columns that tell rows of stored scores apart."""
Shares: TypeAlias = Mapping[str, float | int]


@dataclass(frozen=True)
class Planned:
    """A row of results that is yet to be measured."""

    length: int
    memory: MemorySize
    batches: int


Progress: TypeAlias = Callable[[float, float, Planned], None]


def evaluate(
    model: Run | DNC | str | Path,
    task: AbstractTask | str | None = None,
    *,
    lengths: Iterable[int] | str | None = None,
    memories: Iterable[MemorySize] | None = None,
    batches: int | None = None,
    selection: SelectionRule | None = None,
    inference: Inference = "network",
    settings: EvaluationConfig | None = None,
    backend: BackendChoice = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    store: str | Path | Literal[False] | None = None,
    reuse: bool = False,
    all_lengths: bool = False,
) -> pd.DataFrame:
    """Score a run's selected parameters, or any model with its task, over input lengths.

    Lengths beyond the slots (growing: beyond training lengths) are given up after one whose score
    is near the floor or below: their rows have 0 batches and no score.

    Args:
        model: A run, its folder or the name of a pretrained model, or a model with its `task`.
        task: The task of a model that is not a run, or its name.
        lengths: Input lengths, as integers or text such as "2,5..50:5"; by default those of the
            settings, which have one list for the slots of training and another for other memories.
        memories: Numbers of slots, or "growing" for a memory that grows with the input; by default
            the slots of training.
        batches: Batches of every length, by default those of the settings.
        selection: The rule that selected the parameters of a run, by default `score`.
        inference: "digital" for hard writes and snapped states, see `calibrate`.
        settings: Lengths, batches and the seed of the samples; by default those of the run.
        backend: `auto`, `fused` or `pure`.
        threads: Threads of the backend `fused`, by default one per core.
        progress: Called with the work done, the total, and the row that is measured next.
        store: The file into which the rows are merged. By default it is RUN/evaluation.parquet for
            a run, and none for a pretrained model or a model without a run; False for none.
        reuse: Whether rows of that file are taken as they are, instead of being measured again.
        all_lengths: Whether no length is given up.

    Returns:
        A row for each memory and length; docs/runs.md describes the columns.
    """
    trained = trained_model(model, task, selection, settings, inference)
    lengths = parse_lengths(lengths) if isinstance(lengths, str) else lengths
    plan = make_plan(trained.settings, trained.slots, lengths, memories, batches)
    path = Path(store) if store else None
    if store is None and trained.run is not None and not trained.run.is_pretrained:
        path = trained.run.folder / EVALUATION
    _refuse_other_samples(trained, path, reuse=reuse)
    measured = _known_shares(_read_stored(path), trained) if reuse else {}
    table = measure(
        trained,
        plan,
        trained.backend(backend, threads),
        progress,
        measured,
        all_lengths=all_lengths or trained.settings.all_lengths,
    )
    if path is not None:
        store_rows(path, table)
    return table


def _refuse_other_samples(trained: TrainedModel, path: Path | None, *, reuse: bool) -> None:
    """Refuse to mix rows that could be of another model or have other samples.

    Rows name neither a model without a run nor the seed of the samples, which is that of the run.
    """
    run = trained.run
    if run is None:
        if reuse:
            raise SettingError("reuse needs a run: stored rows do not tell other models apart")
        return
    seed, own = trained.settings.seed, run.config.evaluation.seed
    if seed != own and (reuse or path == run.folder / EVALUATION):
        raise SettingError(
            f"the rows of {run.folder} are for evaluation seed {own}, not {seed}; store those of "
            "another seed elsewhere (store=...), without reuse"
        )


def store_rows(path: Path, table: pd.DataFrame) -> None:
    """Merge rows into a file of results."""
    make_folder(path.parent)
    write_table(path, merge(_read_stored(path), table))


def make_plan(
    settings: EvaluationConfig,
    training_slots: int,
    lengths: Iterable[int] | None = None,
    memories: Iterable[MemorySize] | None = None,
    batches: int | None = None,
) -> list[Planned]:
    """The rows to measure: one memory after the other, by increasing length."""
    if batches is not None:
        require_integer("batches", batches, 1)
    chosen, plan = None if lengths is None else sorted(set(lengths)), []
    for memory in dict.fromkeys([training_slots] if memories is None else memories):
        require_memory_size(memory)
        is_trained = memory == training_slots
        default = settings.lengths if is_trained else settings.extension_lengths
        count = batches or (settings.batches if is_trained else settings.extension_batches)
        for length in parse_lengths(default) if chosen is None else chosen:
            require_integer("length", length, 1)
            plan.append(Planned(int(length), memory, count))
    if not plan:
        raise SettingError("at least one length and one memory are needed")
    return plan


def measure(
    trained: TrainedModel,
    plan: Sequence[Planned],
    backend: AbstractBackend,
    progress: Progress | None = None,
    measured: Mapping[tuple[str, int, int], Shares] = MappingProxyType({}),
    *,
    all_lengths: bool = False,
) -> pd.DataFrame:
    """Measure the rows of a plan, except those whose (memory, length, batches) are known."""
    rows, done, origin = [], 0.0, origin_of(trained)
    total = sum(work_of(trained, planned) for planned in plan)
    memories = {memory: trained.memory(memory) for memory in {row.memory for row in plan}}
    is_promising: dict[MemorySize, bool] = {}  # at the previous length
    for planned in plan:
        if progress is not None:
            progress(done, total, planned)
        done += work_of(trained, planned)
        guaranteed = trained.training.max_length if planned.memory == GROWING else planned.memory
        level = floor(trained.task, planned.length)
        shares = measured.get((str(planned.memory), planned.length, planned.batches))
        if shares is None:
            is_beyond = planned.length > guaranteed and not all_lengths
            if is_beyond and not is_promising.get(planned.memory, True):
                rows.append(_row(trained, origin, planned, level, {"batches": 0}))
                continue
            shares = _score(trained, backend, memories[planned.memory], planned)
        is_promising[planned.memory] = shares["score"] >= least_score_to_go_on(level)
        rows.append(_row(trained, origin, planned, level, shares))
    if progress is not None:
        progress(done, total, plan[-1])
    return results_frame(rows)


def work_of(trained: TrainedModel, planned: Planned) -> float:
    """The rough cost of a row: the link matrix takes time quadratic in the slots."""
    slots = planned.memory
    if slots == GROWING:
        slots = trained.slots + planned.length
    return trained.task.num_steps(planned.length) * planned.batches * float(slots + 50) ** 2


def _score(
    trained: TrainedModel, backend: AbstractBackend, memory: int | Growing, planned: Planned
) -> dict[str, float]:
    scores = []
    for index in range(planned.batches):
        batch = evaluation_batch(trained.task, trained.settings, planned.length, index)
        outputs = outputs_of(backend, trained.model, memory, batch.inputs)
        scores.append(trained.task.score(batch, outputs))
    return mean_scores(scores)


def mean_scores(batches: Sequence[Scores]) -> dict[str, float]:
    """The means over all samples; recall is NaN for a task that has none."""
    means = dict.fromkeys(SHARES, np.nan)
    for name in SHARES:
        values = [getattr(scores, name) for scores in batches]
        if values[0] is not None:
            means[name] = float(np.concatenate(values).mean())
    return means


def _row(
    trained: TrainedModel,
    origin: Mapping[str, object],
    planned: Planned,
    level: float,
    shares: Shares,
) -> dict[str, object]:
    return {
        **origin,
        "task": trained.task.name,
        "memory": str(planned.memory),
        "inference": trained.inference,
        "length": planned.length,
        "batches": planned.batches,
        "batch_size": trained.settings.batch_size,
        "score_kind": trained.task.score_kind,
        "floor": level,
        **dict.fromkeys(SHARES, np.nan),
        **shares,
    }


def _read_stored(path: Path | None) -> pd.DataFrame:
    """The results in a file; none if it is absent or corrupt."""
    if path is None or not path.exists():
        return results_frame()
    try:
        return read_results_file(path)
    except RunError as error:
        logger.warning("%s; it is replaced", error)
        return results_frame()


def _known_shares(
    stored: pd.DataFrame, trained: TrainedModel
) -> dict[tuple[str, int, int], dict[str, float]]:
    """Stored scores of the model's parameters, by memory, length and batches."""
    wanted = {
        "run_id": "" if trained.run is None else trained.run.config.run_id,
        "selection": trained.rule,
        "iteration": trained.iteration,
        "task": trained.task.name,
        "batch_size": trained.settings.batch_size,
        "inference": trained.inference,
    }
    rows = stored[np.logical_and.reduce([stored[name] == wanted[name] for name in wanted])]
    return {
        (row["memory"], row["length"], row["batches"]): {name: row[name] for name in SHARES}
        for row in rows.to_dict("records")
    }


def merge(stored: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Of rows with an equal KEY, keep that with the most samples; of equally many, the new one.

    Stored rows of these parameters' run, rule and iterations that are of other parameters go.
    """
    origin = ["task", "run_id", "selection", "iterations"]
    is_same = (stored[origin] == table.iloc[0][origin]).all(axis=1)
    kept = stored[~is_same | (stored["iteration"] == table.iloc[0]["iteration"])]
    merged = concat_results([kept, table])
    samples = (merged["batches"] * merged["batch_size"]).sort_values(kind="stable")
    return sort_results(merged.loc[samples.index].drop_duplicates(KEY, keep="last"), KEY)
