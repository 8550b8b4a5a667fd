"""One run of a study from start to end; what a worker does."""

from __future__ import annotations

import ctypes
import os
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from typing import SupportsFloat

from filelock import FileLock

from constrained_dnc.analysis.internals import analyse_run
from constrained_dnc.config import Config, with_min_iterations
from constrained_dnc.errors import RunError
from constrained_dnc.evaluation.memories import growing_memory, outputs_of
from constrained_dnc.evaluation.scoring import evaluate, make_plan, work_of
from constrained_dnc.evaluation.subject import Subject
from constrained_dnc.files import make_folder
from constrained_dnc.model.config import GROWING
from constrained_dnc.plugins import carry
from constrained_dnc.results import concat_results
from constrained_dnc.study.layout import (
    failure_file,
    run_folder,
    write_analysis,
    write_failure,
    write_results,
)
from constrained_dnc.sweep.plan import Plan, memories_of
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.compilation import use_compilation_cache
from constrained_dnc.training.disk import CONFIG
from constrained_dnc.training.loop import train
from constrained_dnc.training.run import Run, backend_for, initial_model, open_run

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


def run_trial(plan: Plan, config_text: str, sources: Mapping[str, bytes] | None = None) -> str:
    """Bring one run of a plan to its end; the state it ends in.

    Everything goes to the study directory, which all workers share. A run that was begun by a
    worker that died is resumed from its last checkpoint. The traceback of an error is kept there,
    and the error comes back as a RunError: its class may be one that only the worker knows.
    User-defined files come along as `sources`.
    """
    keep_freed_memory()
    carry(sources or {})
    config = Config.from_json(config_text)
    try:
        state = _run(plan, config)
    except Exception as error:
        write_failure(plan.folder, config.run_id, traceback.format_exc())
        raise RunError(f"{type(error).__name__}: {error}".splitlines()[0]) from None
    failure_file(plan.folder, config.run_id).unlink(missing_ok=True)
    return state


def _run(plan: Plan, config: Config) -> str:
    folder = run_folder(plan.folder, config.run_id)
    # A worker that the scheduler took for dead may still be at work: wait for its lock.
    lock = plan.lock(config)
    make_folder(lock.parent)
    with FileLock(lock):
        lock.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
        if not plan.is_done(config):
            use_compilation_cache()
            if (folder / CONFIG).exists():  # an earlier request may have wanted more
                config = with_min_iterations(config, open_run(folder).config.training.iterations)
            _complete(plan, config, train(config, folder, threads=1))
        return open_run(folder).status.state


def _complete(plan: Plan, config: Config, run: Run) -> None:
    """Evaluate with the memories that a study compares, and analyse.

    The results are written last: with them the run is done.
    """
    tables = [
        evaluate(
            run,
            memories=[memory],
            selection=rule,
            settings=config.evaluation,
            threads=1,
            reuse=True,
        )
        for rule in plan.rules_of(config)
        for memory in memories_of(config, rule)
    ]
    if plan.analyses:
        write_analysis(plan.folder, config.run_id, analyse_run(run))
    write_results(plan.folder, config.run_id, config.training.iterations, concat_results(tables))


def estimate_seconds(config: Config) -> tuple[float, float]:
    """The time of a run on one core: of its training, and of its evaluation at most.

    One update, one measurement and one batch with each memory are timed.
    """
    training, task = config.training, get_task(config.task)
    model = initial_model(config)
    backend = backend_for(config, model, threads=1)
    seen = task.sample(0, training.batch_size, (training.min_length + training.max_length) // 2)
    unseen = task.sample(0, training.batch_size, training.unseen_length)
    update = _seconds(lambda: backend.value_and_grad(model, seen)[0])
    measure = _seconds(lambda: backend.measure(model, unseen)[0])
    subject = Subject(model, task, config.evaluation, training.max_length)
    batch = subject.batch(training.unseen_length, 0)
    evaluation = 0.0
    for memory in memories_of(config):
        slots = config.model.memory_size
        running = growing_memory(slots, slots / 2) if memory == GROWING else memory
        once = _seconds(lambda: outputs_of(backend, model, running, batch.inputs).sum())  # noqa: B023
        (timed,) = make_plan(subject, [batch.length], [memory], 1)
        work = sum(work_of(subject, row) for row in make_plan(subject, memories=[memory]))
        evaluation += once * work / work_of(subject, timed)
    return (update + measure / training.measure_every) * training.iterations, evaluation


def _seconds(value: Callable[[], SupportsFloat]) -> float:
    """The mean of three times, after one that may compile."""
    float(value())
    start = time.perf_counter()
    for _ in range(3):
        float(value())
    return (time.perf_counter() - start) / 3
