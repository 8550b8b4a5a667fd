"""From a config and a folder to a run that can be trained: a new one, or one that was stopped."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import optax

from constrained_dnc.choices import BackendChoice
from constrained_dnc.config import Config, TrainingConfig, differences, with_min_iterations
from constrained_dnc.cores import available_cores
from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.files import make_folder, read_json, reason_of
from constrained_dnc.model.backend import AbstractBackend
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.registry import get_task
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.checkpoint import Checkpoints, Progress
from constrained_dnc.training.disk import CONFIG, LOCK, STATUS
from constrained_dnc.training.guard import MAX_SKIPPED_IN_A_ROW
from constrained_dnc.training.observer import Observer
from constrained_dnc.training.room import check_memory_for_batches
from constrained_dnc.training.run import (
    Run,
    backend_for,
    changed_sources,
    environment,
    initial_model,
    open_run,
    read_status,
    replace_config,
    write_config,
)
from constrained_dnc.training.selection import new_selections


@dataclass(frozen=True)
class Opened:
    """A run in its folder, as far as it has come, and what trains it."""

    config: Config
    folder: Path
    task: AbstractTask
    rest: Any  # of the model: what is not a parameter
    backend: AbstractBackend
    optimiser: optax.GradientTransformation
    checkpoints: Checkpoints
    progress: Progress
    seconds_before: float  # spent by earlier processes


def prepare_folder(folder: Path) -> None:
    """Make the folder of a run; never write among files that are not a run's."""
    make_folder(folder, "run_dir")
    try:
        names = os.listdir(folder)
    except OSError as error:
        accepted = f"a folder that can be read ({reason_of(error)})"
        raise SettingError("run_dir", str(folder), accepted) from error
    others = [name for name in names if name != LOCK and name[0] != "."]
    if others and not (folder / CONFIG).exists():
        raise SettingError(
            "run_dir", str(folder), f"a new or empty folder, or a run's with a {CONFIG}"
        )


def open_training(
    config: Config,
    folder: Path,
    backend: BackendChoice | AbstractBackend,
    threads: int | None,
    observer: Observer,
) -> Opened:
    """Begin a run, or resume the one in the folder, whose lock is held; say which."""
    stored = open_run(folder) if (folder / CONFIG).exists() else None
    if stored is not None:
        _refuse_changes(stored, config, backend, threads)
    check_memory_for_batches(config, get_task(config.task))
    model = initial_model(config)
    parameters, rest = eqx.partition(model, eqx.is_inexact_array)
    if threads is None:
        threads = stored.threads if stored else available_cores()
    backend = _choose(backend, stored, config, model, threads)
    optimiser = make_optimiser(config.training)
    checkpoints = Checkpoints(folder, config, backend.name, threads)
    selections = new_selections(config.training.window)
    fresh = Progress(parameters, optimiser.init(parameters), selections)
    found = checkpoints.load(fresh, observer.warn)
    progress = found or fresh
    seconds_before = _seconds_before(folder, config.run_id, observer)
    if stored is None:
        write_config(folder, config, backend.name, threads)
    else:
        _warn_of_changes(stored, observer)
        config = _lengthen(stored, config, progress, observer)
    observer.say(f"backend {backend.name}: {backend.reason}")
    where = f"resuming after iteration {found.iteration}" if found else "a new run"
    observer.say(f"run {folder}: {where}")
    return Opened(
        config,
        folder,
        get_task(config.task),
        rest,
        backend,
        optimiser,
        checkpoints,
        progress,
        seconds_before,
    )


def make_optimiser(config: TrainingConfig) -> optax.GradientTransformation:
    """Adam after clipping by the global norm."""
    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm),
        optax.adam(config.learning_rate, b1=config.beta_1, b2=config.beta_2, eps=config.epsilon),
    )


def end_of(
    progress: Progress, iterations: int
) -> tuple[Literal["diverged", "finished"], str] | None:
    """How and why a training has ended, if it has."""
    if progress.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
        return "diverged", f"{MAX_SKIPPED_IN_A_ROW} updates in a row were not finite"
    if progress.iteration >= iterations:
        skipped = progress.skipped_updates
        told = f", but {skipped} of {progress.iteration} updates were skipped" if skipped else ""
        return "finished", f"all iterations are done{told}"
    return None


def _choose(
    backend: BackendChoice | AbstractBackend,
    stored: Run | None,
    config: Config,
    model: DNC,
    threads: int,
) -> AbstractBackend:
    """The backend that is asked for, or that the run began with."""
    if not isinstance(backend, str):
        return backend
    if stored is None:
        return backend_for(config, model, backend, threads)
    chosen = backend_for(config, model, stored.backend, threads)
    chosen.reason = "as the run began"
    return chosen


def _lengthen(stored: Run, config: Config, progress: Progress, observer: Observer) -> Config:
    """Take over a larger number of iterations, unless the run has come to another end."""
    if end_of(progress, config.training.iterations) is not None:
        return stored.config
    if config != stored.config:
        replace_config(stored.folder, config)
        before, now = (each.training.iterations for each in (stored.config, config))
        observer.say(f"longer than before: {before} iterations, now {now}")
    return config


def _refuse_changes(
    stored: Run, config: Config, backend: BackendChoice | AbstractBackend, threads: int | None
) -> None:
    """A run resumes as it began or not at all: anything else could not be repeated.

    It may become longer: that is the run it would have been with as many iterations at once.
    """
    fields = differences(with_min_iterations(stored.config, config.training.iterations), config)
    if fields:
        raise SettingError(
            "run_dir",
            str(stored.folder),
            f"a folder of its own for every config; there and here are different: "
            f"{', '.join(fields)}",
        )
    name = backend if isinstance(backend, str) else backend.name
    if name not in ("auto", stored.backend):
        raise SettingError("backend", name, f"{stored.backend}, with which {stored.folder} began")
    if threads not in (None, stored.threads):
        raise SettingError(
            "threads", threads, f"{stored.threads}, with which {stored.folder} began"
        )


def _warn_of_changes(run: Run, observer: Observer) -> None:
    for sentence in changed_sources(run):
        observer.warn(sentence)
    stored = read_json(run.folder / CONFIG)
    for kind, now in environment().items():
        changed = [
            f"{name} ({stored.get(kind, {}).get(name)}, now {value})"
            for name, value in now.items()
            if stored.get(kind, {}).get(name) != value
        ]
        if changed:
            observer.warn(
                f"{kind} changed since the run began; bits may differ: {', '.join(changed)}"
            )


def _seconds_before(folder: Path, run_id: str, observer: Observer) -> float:
    """The time spent so far; everything else in the status comes from the checkpoint."""
    if not (folder / STATUS).exists():
        return 0.0
    try:
        return read_status(folder, run_id).seconds
    except RunError as error:
        observer.warn(f"{error}; it is written again, and the time spent so far is lost")
        return 0.0
