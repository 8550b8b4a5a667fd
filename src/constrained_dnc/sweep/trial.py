"""One run of a study from start to end; what a worker does."""

from __future__ import annotations

import ctypes
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsFloat

import pyarrow as pa

from constrained_dnc.analysis.internals import analyse_run
from constrained_dnc.config import Config, with_min_iterations
from constrained_dnc.evaluation.lengths import evaluated
from constrained_dnc.evaluation.memories import memory_sizes
from constrained_dnc.files import locked, make_folder
from constrained_dnc.plugins import carry
from constrained_dnc.study.layout import results_name, run_folder, write_analysis, write_results
from constrained_dnc.sweep.plan import EVALUATED, Plan
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.compilation import use_compilation_cache
from constrained_dnc.training.disk import CONFIG, SELECTED
from constrained_dnc.training.loop import train
from constrained_dnc.training.room import check_memory_for_batches
from constrained_dnc.training.run import Run, backend_for, initial_model, open_run


@dataclass(frozen=True)
class Outcome:
    """How a trial ended: the state of its run, or failed and why."""

    state: str
    reason: str = ""
    trace: str = ""
    by_death: bool = False  # of its worker, and of those that followed


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20


def keep_freed_memory() -> None:
    """Let malloc keep what is freed, as it does outside of Dask.

    Dask tells its workers to give freed memory back to the system at once. The arrays of every
    training iteration would be fresh pages then, at a cost of about 6 % of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc's alone
        mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 2 * LARGEST_MMAP_THRESHOLD)


def run_trial(study: str, config_text: str, sources: Mapping[str, bytes] | None = None) -> Outcome:
    """Bring one run to its end, or say why not.

    Everything goes to the study directory, which all workers share. A run that was begun by a
    worker that died is resumed from its last checkpoint. An error comes back as text, as its class
    may be one of a user's file that only the worker has read. Files of your own come along as
    `sources`.
    """
    keep_freed_memory()
    carry(sources or {})
    plan, config = Plan(Path(study)), Config.from_json(config_text)
    folder = run_folder(plan.folder, config.run_id)
    try:
        # A worker that the scheduler took for dead may still be at work: wait for its lock.
        make_folder(plan.lock(config).parent)
        with locked(plan.lock(config), wait=True):
            if not plan.is_done(config):
                use_compilation_cache()
                if (folder / CONFIG).exists():  # an earlier request may have asked for more
                    config = with_min_iterations(
                        config, open_run(folder).config.training.iterations
                    )
                _complete(plan.folder, config, train(config, folder, threads=1))
            return Outcome(open_run(folder).status.state)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outcome("failed", reason, traceback.format_exc())


def _complete(study: Path, config: Config, run: Run) -> None:
    """Evaluate with the memories that a study compares, and analyse.

    The results are written last, and mark the run as done.
    """
    run_id, sizes = config.run_id, memory_sizes(config.model.memory_size)
    tables = [
        evaluated(run, sizes[memory], rule, threads=1)
        for rule, memories in EVALUATED.items()
        if (run.folder / SELECTED[rule]).exists()  # not if no update was ever finite
        for memory in memories
    ]
    write_analysis(study, run_id, analyse_run(run))
    name = results_name(run_id, config.training.iterations)
    write_results(study, name, pa.concat_tables(tables))


def estimate_seconds(config: Config) -> float:
    """The time of a run's updates and measurements on one core."""
    training, task = config.training, get_task(config.task)
    check_memory_for_batches(config, task)
    model = initial_model(config)
    backend = backend_for(config, model, threads=1)
    seen = task.sample(0, training.batch_size, (training.min_length + training.max_length) // 2)
    unseen = task.sample(0, training.batch_size, training.unseen_length)
    update = _seconds(lambda: backend.value_and_grad(model, seen)[0])
    measure = _seconds(lambda: backend.measure(model, unseen)[0])
    return (update + measure / training.measure_every) * training.iterations


def _seconds(loss: Callable[[], SupportsFloat]) -> float:
    """The mean of three times, after one that may compile."""
    float(loss())
    start = time.perf_counter()
    for _ in range(3):
        float(loss())
    return (time.perf_counter() - start) / 3
