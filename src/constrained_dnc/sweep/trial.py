"""One run of a study from start to end, as a worker runs it."""

from __future__ import annotations

import ctypes
import time
import traceback
from collections.abc import Callable, Mapping
from typing import SupportsFloat

from constrained_dnc.config import Config, with_min_iterations
from constrained_dnc.errors import RunError, SettingError, first_line
from constrained_dnc.evaluation.analyses import analyse_model, analyse_run
from constrained_dnc.evaluation.digital import digital_of
from constrained_dnc.evaluation.results import concat_results
from constrained_dnc.evaluation.scoring import evaluate, make_plan, work_of
from constrained_dnc.evaluation.subject import Subject, growing_memory, outputs_of
from constrained_dnc.files import locked, make_folder
from constrained_dnc.model.config import GROWING
from constrained_dnc.plugins import override_sources
from constrained_dnc.study.layout import (
    failure_file,
    remove_remains,
    run_folder,
    write_analysis,
    write_failure,
    write_results,
)
from constrained_dnc.sweep.plan import Plan, memories_of
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.training.folder import CHECKPOINTS, CONFIG, ENDED
from constrained_dnc.training.loop import train
from constrained_dnc.training.parameters import backend_for, initial_model
from constrained_dnc.training.process import use_compilation_cache
from constrained_dnc.training.run import Run, open_run, replace_config

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20


def keep_freed_memory() -> None:
    """Let malloc keep freed memory, as it does outside of Dask.

    Dask makes its workers return freed memory to the system at once. Every training iteration would
    then get fresh pages for its arrays and take about 6 % longer.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # only glibc has it
        mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 2 * LARGEST_MMAP_THRESHOLD)


def run_trial(plan: Plan, config_text: str, sources: Mapping[str, bytes] | None = None) -> str:
    """Train, evaluate and analyse one run; returns the state it ends in.

    Everything is written to the study directory, which all workers share. A run whose worker died
    is resumed from its last checkpoint. The traceback of an error is stored there, and the error is
    raised as a RunError: its class may be one that only the worker can import. `sources` are the
    texts of user-defined files.
    """
    keep_freed_memory()
    config = Config.from_json(config_text)
    try:
        with override_sources(sources or {}):
            state = _run(plan, config)
    except Exception as error:
        write_failure(plan.folder, config.run_id, traceback.format_exc())
        is_ours = isinstance(error, SettingError | RunError)
        reason = first_line(error) if is_ours else f"{type(error).__name__}: {first_line(error)}"
    else:
        failure_file(plan.folder, config.run_id).unlink(missing_ok=True)
        return state
    raise RunError(reason)  # out here it has no context, which Dask would send along


def _run(plan: Plan, config: Config) -> str:
    # A worker that the scheduler took for dead may still be at work: wait for its lock.
    lock = plan.lock(config)
    make_folder(lock.parent)
    with locked(lock, wait=True):
        remove_remains(plan.folder, config.run_id)
        if not plan.is_done(config):
            use_compilation_cache()
            _complete(plan, _trained(plan, config))
        return open_run(run_folder(plan.folder, config.run_id)).status.state


def _trained(plan: Plan, config: Config) -> Run:
    """Train a run to its end; one that has ended needs no checkpoint to be evaluated."""
    folder, threads = run_folder(plan.folder, config.run_id), 1
    if (folder / CONFIG).exists():
        stored = open_run(folder)
        threads = stored.threads  # a gathered run may have begun with more
        # An earlier request may have been longer.
        config = with_min_iterations(config, stored.config.training.iterations)
        has_checkpoint = any((folder / name).exists() for name in CHECKPOINTS)
        if not (has_checkpoint or needs_training(plan, config)):
            replace_config(folder, config)
            return open_run(folder)
    return train(config, folder, threads=threads)


def _complete(plan: Plan, run: Run) -> None:
    """Evaluate and analyse; the results are written last, because they make the run done."""
    config, rules = run.config, plan.rules_of(run.config)
    if plan.analyses:
        for rule in rules:  # for the state count in the results
            digital_of(run, run.selected(rule), threads=1)
    tables = [
        evaluate(
            run,
            memories=[memory],
            selection=rule,
            inference=inference,
            settings=config.evaluation,
            threads=1,
            reuse=True,
        )
        for rule in rules
        for inference in plan.inferences
        for memory in memories_of(config, rule)
    ]
    if plan.analyses:
        write_analysis(plan.folder, config.run_id, analyse_run(run, plan.rules))
    write_results(plan.folder, config.run_id, config.training.iterations, concat_results(tables))


def estimate_seconds(plan: Plan, config: Config) -> dict[str, float]:
    """Seconds that training, evaluation, analysis and compilation of a run take on one core.

    An update, a measurement, an analysis and a batch per memory are timed. Evaluation may take
    less, as hopeless lengths are given up. A worker compiles once.
    """
    began = time.perf_counter()
    training, task = config.training, get_task(config.task)
    model = initial_model(config)
    backend = backend_for(config, model, threads=1)
    mean_length = (training.min_length + training.max_length) // 2
    trained, unseen = (
        task.sample(0, training.batch_size, n) for n in (mean_length, training.unseen_length)
    )

    def analyse() -> int:
        return len(analyse_model(model, task, config))

    update = _seconds(lambda: backend.value_and_grad(model, trained)[0])
    measure = _seconds(lambda: backend.measure(model, unseen)[0])
    iterating = (update + measure / training.measure_every) * training.iterations
    subject = Subject(model, task, config.evaluation, training.max_length)
    batch = subject.batch(training.unseen_length, 0)
    evaluation, slots = 0.0, config.model.memory_size
    for memory in memories_of(config):
        running = growing_memory(slots) if memory == GROWING else memory
        once = _seconds(lambda: outputs_of(backend, model, running, batch.inputs).sum())  # noqa: B023
        (timed,) = make_plan(subject.settings, slots, [batch.length], [memory], 1)
        rows = make_plan(subject.settings, slots, memories=[memory])
        work = sum(work_of(subject, row) for row in rows)
        rules = sum(memory in memories_of(config, rule) for rule in plan.rules)
        evaluation += rules * once * work / work_of(subject, timed)
    return {
        "training": iterating,
        "evaluation": evaluation,
        "analysis": _seconds(analyse) if plan.analyses else 0.0,
        "compilation": time.perf_counter() - began,
    }


def needs_training(plan: Plan, config: Config) -> bool:
    """Whether a run has not ended or is to be extended."""
    folder = run_folder(plan.folder, config.run_id)
    if not (folder / CONFIG).exists():
        return True
    run = open_run(folder)
    is_long_enough = run.config.training.iterations >= config.training.iterations
    return not (is_long_enough and run.status.state in ENDED)


def _seconds(value: Callable[[], SupportsFloat]) -> float:
    """The mean time of three calls, after a first one that may compile."""
    float(value())
    start = time.perf_counter()
    for _ in range(3):
        float(value())
    return (time.perf_counter() - start) / 3
